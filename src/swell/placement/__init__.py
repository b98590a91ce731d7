"""Which devices: how many of which node a job gets, and then which ones."""
