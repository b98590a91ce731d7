"""The worker's process: how a script is run, and under what."""
