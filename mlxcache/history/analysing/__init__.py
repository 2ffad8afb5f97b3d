"""Answers to the questions of who analyses a history: ratios, releases, geometric means."""
