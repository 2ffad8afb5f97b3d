"""Runs asv quietly: which machine this is, in what state, with which settings, and what came out."""
