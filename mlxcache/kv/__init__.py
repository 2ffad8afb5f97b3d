"""The cache: positions on the host, storage, one step through a layer."""
