"""How inner loops become machine code, once at installation: `python -m swell.loops`."""
