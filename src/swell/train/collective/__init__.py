"""The process group of a gang, and the sums that go over it."""
