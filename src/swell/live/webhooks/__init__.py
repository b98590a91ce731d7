"""Addresses are told of jobs: at least once, and never by the thread of the head."""
