"""Reads asv's own files; knows nothing of tables."""
