"""Each paper's evaluation as a command: its figures beside ours. What an experiment is: `experiment`."""
