"""How a worker process ended, as a number."""

#: In place of an exit code, or of minus a signal: there never was a process.
NOT_STARTED = -1000
