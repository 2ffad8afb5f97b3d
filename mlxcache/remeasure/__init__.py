"""Runs asv again: two commits in turn, a confirmation, a bisection."""
