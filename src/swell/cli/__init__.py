"""The command line: the file of each command (listed in `commands.py`), its options, and what it prints."""
