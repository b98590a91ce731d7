"""The copy of a platform's state on a second machine: what is sent, and what takes it."""
