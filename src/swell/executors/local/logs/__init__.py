"""Logs of workers: rotated files whose bytes have positions in one stream."""
