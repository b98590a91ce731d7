"""Free capacity over time, and plans that take from it and pay for each of their changes.

Time runs from 0 (now). A *level* is one of a taker's sizes, numbered from 1 in ascending order; level 0 is
nothing. A plan is a list of levels over time. A start, and each change between two levels, takes time in
which no work is done; going to nothing takes none.

All of this is kernels (`compiled`) and their parts: numbers, arrays and loops. `filling` calls them.
"""
