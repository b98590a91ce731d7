"""Readers of job logs: listed in `read.py`."""
