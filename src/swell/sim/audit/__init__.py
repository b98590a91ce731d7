"""The audit of a recorded run: works it out again, and tells where its files do not agree."""
