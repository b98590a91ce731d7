"""Names and messages shared by training scripts and whoever runs them. Imports nothing of ours."""
