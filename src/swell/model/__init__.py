"""The nouns of all parts: job, event, command, cluster, snapshot, plan, view. No I/O, no clock."""
