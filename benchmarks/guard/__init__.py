"""`make bench-guard`: what a commit costs beside the baseline, and beside the commits that were once fast."""
