"""A copy of a platform's state on a second machine, which another head can go on from."""
