"""The scheduler's head: what events mean, when it plans, which changes pay, which commands follow."""
