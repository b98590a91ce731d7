"""The world that is real: an inbox that executors, timers and users fill, and a clock on the wall."""
