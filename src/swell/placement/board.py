"""Who holds which device, and how many are free below each point of the tree."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from swell.arrays import IntArray
from swell.placement.tree import Tree

NOBODY = -1


class Board:
    """Jobs are numbers here; what a job holds is an array of positions, which is replaced and never changed.

    Complexity: giving or taking a device costs the depth of the tree; counting costs nothing.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.owners: IntArray = np.full(len(tree.devices), NOBODY, dtype=np.int64)
        self.held: dict[int, IntArray] = {}  #: job -> positions; no entry: none
        self.num_free_at: IntArray = tree.stops - tree.starts  #: (N + 1,) by number of subtree
        self.num_free_at[-1] = -1  # above the root: less than anywhere

    def copy(self) -> Board:
        """The same holdings, to try something on."""
        twin = object.__new__(Board)
        twin.tree, twin.held = self.tree, dict(self.held)
        twin.owners, twin.num_free_at = self.owners.copy(), self.num_free_at.copy()
        return twin

    @property
    def num_free(self) -> int:
        return int(self.num_free_at[0])

    def num_held(self, job: int) -> int:
        return len(self.held.get(job, ()))

    def give(self, job: int, positions: IntArray) -> None:
        """Add these positions, which must be free, to those that the job holds."""
        if len(positions) == 0:
            return
        self.owners[positions] = job
        held = self.held.get(job)
        self.held[job] = positions if held is None else np.concatenate([held, positions])
        self._count(positions, -1)

    def give_all(self, held: Mapping[int, IntArray]) -> None:
        """To jobs that have nothing yet, each its positions."""
        given = {job: positions for job, positions in held.items() if len(positions)}
        if not given:
            return
        positions = np.concatenate(list(given.values()))
        self.owners[positions] = np.repeat(list(given), [len(one) for one in given.values()])
        self.held |= given
        self._count(positions, -1)

    def take_back(self, job: int, positions: IntArray | None = None) -> None:
        """Some of what the job holds; all of it, if nothing is said."""
        held = self.held.pop(job, None)
        if held is None:
            return
        if positions is None or len(positions) == len(held):
            positions = held
        else:
            self.held[job] = held[~np.isin(held, positions)]
        self.owners[positions] = NOBODY
        self._count(positions, 1)

    def _count(self, positions: IntArray, more: int) -> None:
        self.tree.count(self.num_free_at, positions, more)
        self.num_free_at[-1] = -1

    def free_blocks_in(self, home: int, size: int) -> IntArray:
        """Numbers of the blocks of this size below a home of which all is free, in order of position."""
        blocks = self.tree.blocks_in(home, size)
        free: IntArray = blocks[self.num_free_at[blocks] == size]
        return free
