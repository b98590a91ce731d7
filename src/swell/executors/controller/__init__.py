"""The controller: what commands of the head become on hosts, and what a successor takes over."""
