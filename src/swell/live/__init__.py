"""A platform's world: inbox, clock, recovery, folding, pruning, counters, what users may ask of jobs."""
