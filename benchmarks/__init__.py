"""Measurements of this tree, from its root: `make bench-...`. Not part of the installed package."""
