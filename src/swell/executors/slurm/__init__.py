"""Hosts on slices of the nodes of a Slurm cluster, each a small job, as many as jobs could use."""
