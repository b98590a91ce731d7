"""The head: events in, commands out. No clock, no I/O, no threads, no random state."""
