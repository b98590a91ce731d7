"""What outlives the daemon: the journal and its projections, and the folder they lie in."""
