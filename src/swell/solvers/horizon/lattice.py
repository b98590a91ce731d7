"""What a taker may have had before each step, whatever the order."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from swell.arrays import IntArray


class StateLayers(NamedTuple):
    """States of takers with n levels: multisets of the levels they have had, in layers by their number.

    What a taker has done depends on the multiset alone: of 6 levels and 5 steps there are 210 states before a
    step, and 7,776 plans. Read-only.
    """

    begins: IntArray  #: (L + 1, T + 1) [n, t]: the first state of layer t of takers with n levels
    following: IntArray  #: (S, L) the state after one more level; 0 in the last layer, which has none


@lru_cache(maxsize=32)
def lattice(most_levels: int, num_steps: int) -> StateLayers:
    """Lattice of states for takers with 1 to `most_levels` levels, in layers 0 to `num_steps` - 1."""
    begins = np.zeros((most_levels + 1, num_steps + 1), dtype=np.int64)
    rows: list[list[int]] = []
    for num_levels in range(1, most_levels + 1):
        states: dict[tuple[int, ...], int] = {}
        for step in range(num_steps):
            begins[num_levels, step] = len(rows) + len(states)
            for had in combinations_with_replacement(range(num_levels), step):
                states[had] = len(rows) + len(states)
        begins[num_levels, num_steps] = len(rows) + len(states)
        missing = [0] * (most_levels - num_levels)
        rows += [
            [states.get(tuple(sorted((*had, level))), 0) for level in range(num_levels)] + missing
            for had in states
        ]
    following = np.array(rows, dtype=np.int64).reshape(len(rows), most_levels)
    for array in (begins, following):
        array.setflags(write=False)
    return StateLayers(begins, following)
