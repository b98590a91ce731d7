"""The process group of a gang, and the sums and copies that go over it."""
