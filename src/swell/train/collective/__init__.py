"""The process group of a gang: sums of gradients, and votes."""
