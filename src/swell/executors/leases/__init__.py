"""Leases: how long a host runs workers without the controller, and when its devices are free."""
