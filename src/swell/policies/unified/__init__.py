"""The papers' ideas as one policy."""
