"""Slices of the nodes of a Ray cluster: each is an actor that holds devices and runs a host."""
