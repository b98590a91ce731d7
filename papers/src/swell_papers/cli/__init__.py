"""`swell repro`."""
