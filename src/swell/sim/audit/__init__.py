"""Works a recorded run out again, from nothing but its files, and tells where they do not agree."""
