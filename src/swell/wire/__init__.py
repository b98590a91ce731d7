"""Names, messages and variables that training scripts share with what runs them. Imports nothing of ours."""
