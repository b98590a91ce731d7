"""The messages between controller and node hosts, and the port that a new kind of host has."""
