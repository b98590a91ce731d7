"""Training scripts of evaluations on real processes, beside those of `swell demo`."""
