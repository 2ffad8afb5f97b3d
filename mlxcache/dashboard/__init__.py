"""Shows what `mlxcache.history` found: figures, pages, verdicts."""
