"""Puts a results tree together as one table."""
