"""`make bench-head`: what one head can hold: hosts that have joined, their devices, and running jobs."""
