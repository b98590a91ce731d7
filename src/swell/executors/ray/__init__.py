"""Hosts on the nodes of a Ray cluster, and one lease of Ray's resources for each device that is in use."""
