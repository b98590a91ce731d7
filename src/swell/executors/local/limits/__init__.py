"""What the processes of a gang may have of their machine, and what they have used of it."""
