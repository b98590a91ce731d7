"""Each paper's evaluation as a command, and its page in `docs/results`."""
