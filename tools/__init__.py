"""Scripts for whoever works on mlxcache; run them from the repository with `python -m tools.<name>`."""
