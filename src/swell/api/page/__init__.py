"""The live page: who may open it, what it shows, and how that is kept up to date."""
