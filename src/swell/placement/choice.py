"""Which block to take: one pass over the candidates, compiled where there are many (`compiled`)."""

from __future__ import annotations

import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.compiled import part


def best_block(
    blocks: IntArray,
    size: int,
    num_free_at: IntArray,
    num_taken_at: IntArray,
    num_own_at: IntArray,
    parents: IntArray,
    num_levels: int,
) -> int:
    """The free block with most of the job's own devices, then with the fewest that others have yet to leave
    (two that wait for each other's would wait for ever), then in the most crowded surroundings; -1: none.

    Args:
        blocks: (n,) numbers of blocks of this size; of equals the first one is taken.
        num_free_at, num_taken_at, num_own_at: (N + 1,) devices below each point of the tree that are free,
            that anybody really holds, that the job really holds.
        num_levels: of the tree.
    """
    best = -1
    for block in blocks:
        if num_free_at[block] != size:
            continue
        if best < 0 or _is_better(block, best, num_free_at, num_taken_at, num_own_at, parents, num_levels):
            best = block
    return best


@part
def _is_better(
    block: int,
    other: int,
    num_free_at: IntArray,
    num_taken_at: IntArray,
    num_own_at: IntArray,
    parents: IntArray,
    num_levels: int,
) -> bool:
    own, others_own = num_own_at[block], num_own_at[other]
    if own != others_own:
        return bool(own > others_own)
    taken, others_taken = num_taken_at[block] - own, num_taken_at[other] - others_own
    if taken != others_taken:
        return bool(taken < others_taken)
    for _ in range(num_levels):
        block, other = parents[block], parents[other]
        if num_free_at[block] != num_free_at[other]:
            return bool(num_free_at[block] < num_free_at[other])
    return False


def cheapest_block(
    blocks: IntArray,
    size: int,
    job: int,
    num_free_at: IntArray,
    owners: IntArray,
    starts: IntArray,
    num_own_at: IntArray,
    is_pinned: BoolArray,
    is_running: BoolArray,
    least_free: int,
) -> int:
    """The block from which the fewest running jobs must go, then one where the job itself is, then the one
    with the fewest devices taken; -1: none.

    Nothing in it is pinned or the job's already.

    Args:
        least_free: devices of it that are free; 1: each part in it is smaller.
        owners: (D,) number of the job that has each device, -1: nobody.
        is_pinned, is_running: by number of job; the last entry is of nobody.
    """
    best, fewest = -1, 0
    seen_in = np.full(len(is_running), -1)
    for block in blocks:
        num_free = num_free_at[block]
        if num_free < least_free or num_free >= size:
            continue
        num_running, is_possible = 0, True
        for position in range(starts[block], starts[block] + size):
            owner = owners[position]
            if owner == job or is_pinned[owner]:
                is_possible = False
                break
            if is_running[owner] and seen_in[owner] != block:
                seen_in[owner] = block
                num_running += 1
        if not is_possible:
            continue
        is_tie = best >= 0 and num_running == fewest
        own, others_own = num_own_at[block], num_own_at[best]
        is_tie_broken = is_tie and (own > others_own or (own == others_own and num_free > num_free_at[best]))
        if best < 0 or num_running < fewest or is_tie_broken:
            best, fewest = block, num_running
    return best
