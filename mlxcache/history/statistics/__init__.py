"""Noise, significance, effects and controls of rows of numbers."""
