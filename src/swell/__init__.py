"""Swell: elastic training for PyTorch. Deadlines that are promises, resizes inside live processes."""

__version__ = "0.1.0"
