"""The policies that only evaluations compare with."""
