"""What starts, resizes, an all-reduce, a kill and a checkpoint take on a machine's own devices."""
