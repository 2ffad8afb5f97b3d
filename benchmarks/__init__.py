"""The asv suite of mlxcache, one topic a file."""
