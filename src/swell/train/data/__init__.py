"""Which samples a worker trains on in each step."""
