"""Machine code for inner loops, built once at installation: `python -m swell.loops`."""
