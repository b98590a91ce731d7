"""Which devices: the topology as a tree of blocks, and buddy allocation on it."""
