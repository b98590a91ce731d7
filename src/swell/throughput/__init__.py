"""How fast a job would go at each size: curves, corrections, margins of promises."""
