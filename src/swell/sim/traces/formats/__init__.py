"""Readers of job logs: one file for each format, listed in `registry.py`."""
