"""Logs of clusters: many formats read into one kind of job, what they lack filled by stated rules."""
