"""The training state: saved, copied to joiners, and compared between workers."""
