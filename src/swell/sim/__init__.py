"""The simulated world: gangs, costs of changes, faults, and the figures and report of a run."""
