"""Free capacity over time, and plans that take from it and pay for each of their changes.

Time runs from 0 (now). A *level* is one of a taker's sizes, numbered from 1 in ascending order; level 0 is
nothing. A plan is a list of levels over time. A start, and each change between two levels, takes time in
which no work is done; going to nothing takes none.

`plans` says what the columns are; the other files are loops over them, which are compiled, and which
`filling` calls.
"""
