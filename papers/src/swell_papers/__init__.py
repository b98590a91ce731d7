"""Each paper's evaluation as a command, and its page in `papers/docs/results`."""
