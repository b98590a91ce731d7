"""One fixed order of summing: a binary tree over numbered leaves, whichever ranks hold them.

A sum of floating-point numbers depends on its order. Here leaf 0 is added to leaf 1 and 2 to 3, then the two
sums, and so on; where the number of leaves is no power of two, what has no right sibling goes up as it is.
A rank that holds leaves that lie side by side can sum them up to the fewest nodes of that tree (`cover`), and
a rank that is given such nodes of all of them, in order, can finish it: the result has the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


def cover(leaves: range, num_leaves: int) -> list[range]:
    """The fewest nodes of a tree of `num_leaves` that make up these leaves, from left to right."""
    fold = Fold[None](num_leaves, lambda left, right: None)
    for leaf in leaves:
        fold.push(range(leaf, leaf + 1), None)
    return [node for node, _ in fold.held]


class Fold(Generic[T]):
    """Sums nodes that come from left to right as far as the tree allows, like a binary counter.

    A node is the range of its leaves. One of each size is held at most: log2 of the number of leaves, plus
    one, where the first node begins with leaf 0, and twice that where it does not.
    """

    def __init__(self, num_leaves: int, add: Callable[[T, T], T]) -> None:
        """`add(left, right)` returns the sum; it may use up both."""
        self._num_leaves = num_leaves
        self._add = add
        self.held: list[tuple[range, T]] = []  #: nodes and their sums

    def push(self, node: range, value: T) -> None:
        """Take what stands to the right of all that is held."""
        while self.held and self._is_node(range(self.held[-1][0].start, node.stop)):
            left, before = self.held.pop()
            node, value = range(left.start, node.stop), self._add(before, value)
        self.held.append((node, value))

    def total(self) -> T:
        """The sum of all leaves; to be asked for once all have come."""
        [(node, value)] = self.held
        if node != range(self._num_leaves):
            raise ValueError(f"the sum of {node} is not the sum of all {self._num_leaves} leaves")
        return value

    def _is_node(self, leaves: range) -> bool:
        width = 1 << (len(leaves) - 1).bit_length()
        return leaves.start % width == 0 and leaves.stop == min(leaves.start + width, self._num_leaves)
