"""Training scripts in the idioms of the wild, each with the same result at all sizes, or a reason."""
