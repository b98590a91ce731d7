"""Hosts on the nodes of a Ray cluster, and leases of its devices."""
