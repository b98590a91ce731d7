"""The worker's connection to its agent: messages, signs of life, and what they call the job's files."""
