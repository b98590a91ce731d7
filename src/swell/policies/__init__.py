"""Who gets how much: one file for each paper, one for each baseline. Their names: `registry`."""
