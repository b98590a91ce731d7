"""Hands: who starts, changes and ends the processes of jobs. Commands in, events out."""
