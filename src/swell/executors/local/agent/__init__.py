"""The agent: one process that owns the workers of this machine and outlives the daemon."""
