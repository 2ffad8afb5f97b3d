"""Judges two commits against each other."""
