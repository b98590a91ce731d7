"""Job logs: reading, filling, generating, writing. A reader for each format in `formats/`."""
