"""How fast would it go: curves from a short profile, corrected by what running jobs report."""
