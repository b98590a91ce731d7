"""Slices of the nodes of a cluster: each runs one host, and they come and go with the jobs that need them."""
