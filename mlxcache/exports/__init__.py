"""Writes the history table in the formats of other systems: one format, one module."""
