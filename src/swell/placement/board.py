"""Who holds which device, and how many are free below each point of the tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Self

from swell.placement.tree import Subtree, Tree


class Board:
    """Complexity: giving or taking a device costs the depth of the tree, counting costs nothing."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.owners: list[str | None] = [None] * len(tree.devices)
        self.held: dict[str, set[int]] = {}  #: job -> positions
        self._taken: Counter[Subtree] = Counter()

    def copy(self) -> Self:
        """The same holdings, to try something on."""
        twin = type(self)(self.tree)
        twin.owners = list(self.owners)
        twin.held = {job: set(positions) for job, positions in self.held.items()}
        twin._taken = Counter(self._taken)
        return twin

    @property
    def num_free(self) -> int:
        return self.owners.count(None)

    def num_free_in(self, subtree: Subtree) -> int:
        return subtree.size - self._taken[subtree]

    def is_free(self, position: int) -> bool:
        return self.owners[position] is None

    def jobs_in(self, subtree: Subtree) -> Counter[str]:
        """Devices that each job holds below this point."""
        return Counter(job for position in subtree.span if (job := self.owners[position]) is not None)

    def give(self, job: str, positions: Iterable[int]) -> None:
        for position in positions:
            self.owners[position] = job
            self.held.setdefault(job, set()).add(position)
            self._taken.update(self.tree.leaves[position].lineage())

    def take_back(self, job: str, positions: Collection[int]) -> None:
        for position in positions:
            self.owners[position] = None
            self._taken.subtract(self.tree.leaves[position].lineage())
        self.held[job] = self.held[job].difference(positions)
