"""Finds what changed in a series, and when."""
