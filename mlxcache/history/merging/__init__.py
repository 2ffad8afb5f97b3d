"""Joins results of several runs and sends them on."""
