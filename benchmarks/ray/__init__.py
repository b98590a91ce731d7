"""Ray Train's elastic mode beside Swell, on the same Ray nodes: `python -m benchmarks.ray`."""
