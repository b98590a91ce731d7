"""How machines join: the door, join tokens, certificates, lines that outlive their connections."""
