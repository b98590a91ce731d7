"""Runs the gangs and trial runs of a platform. Knows hosts by their messages only, and no process."""
