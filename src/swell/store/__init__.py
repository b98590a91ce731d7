"""What is kept on disk: journal, archive, curves, code, backups, the names in a state folder."""
