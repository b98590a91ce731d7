"""Snapshots of a scheduler's nodes, as its own commands print them. A reader for each format."""
