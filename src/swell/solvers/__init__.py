"""Solvers that know no job: the dynamic program over devices (`knapsack.py`), greedy filling, queueing."""
