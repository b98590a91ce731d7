"""Processes of this machine: what runs, what is stopped, and what ends with its parent."""
