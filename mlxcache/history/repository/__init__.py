"""Commits of the project: their order, their line, which have results, what a name means."""
