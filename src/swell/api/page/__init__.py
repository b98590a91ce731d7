"""The live page: rows and words, who may open it, and how it follows what happens."""
