"""Reads any asv results tree as one table and judges it; imports neither mlx nor the dashboard."""
