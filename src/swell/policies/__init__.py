"""The scheduling policies: who gets how much. One file each, listed in `registry.py`."""
