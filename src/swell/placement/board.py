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
        self.num_free_at = list(tree.sizes)  #: by number of subtree

    def copy(self) -> Self:
        """The same holdings, to try something on."""
        twin = type(self)(self.tree)
        twin.owners = list(self.owners)
        twin.held = {job: set(positions) for job, positions in self.held.items()}
        twin.num_free_at = list(self.num_free_at)
        return twin

    @property
    def num_free(self) -> int:
        return self.num_free_at[0]

    def num_free_in(self, subtree: Subtree) -> int:
        return self.num_free_at[subtree.number]

    def is_free(self, position: int) -> bool:
        return self.owners[position] is None

    def jobs_in(self, subtree: Subtree) -> Counter[str]:
        """Devices that each job holds below this point."""
        return Counter(job for position in subtree.span if (job := self.owners[position]) is not None)

    def give(self, job: str, positions: Iterable[int]) -> None:
        for position in positions:
            self.owners[position] = job
            self.held.setdefault(job, set()).add(position)
            for number in self.tree.leaves[position].lineage:
                self.num_free_at[number] -= 1

    def take_back(self, job: str, positions: Collection[int]) -> None:
        for position in positions:
            self.owners[position] = None
            for number in self.tree.leaves[position].lineage:
                self.num_free_at[number] += 1
        self.held[job] = self.held[job].difference(positions)
