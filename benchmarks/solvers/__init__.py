"""What the exact solvers cost beside a general one."""
