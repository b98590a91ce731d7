"""Names and messages shared by training scripts and what runs them. Imports nothing of ours."""
