"""The nouns: job, cluster, allocation, plan, event, command, snapshot. No I/O, no clock."""
