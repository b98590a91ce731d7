"""A world that is a heap of future events: what a policy would do to a log of jobs."""
