"""One fixed order of summing: a binary tree over numbered leaves, whichever ranks hold them.

A sum of floating-point numbers depends on its order. Here leaf 0 is added to leaf 1 and 2 to 3, then the two
sums, and so on; where the number of leaves is no power of two, what has no right sibling goes up as it is.
A rank that holds leaves that lie side by side can sum them up to the fewest nodes of that tree (`cover`), and
a rank that is given such nodes of all of them, in order, can finish it: the result has the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class TreeNode(NamedTuple):
    """The sum of leaves `number * 2**level` up to the next node of its level; a leaf has level 0."""

    level: int
    number: int


def cover(leaves: range, num_leaves: int) -> list[TreeNode]:
    """The fewest nodes of a tree of `num_leaves` that make up these leaves, from left to right."""
    fold = Fold[None](num_leaves, lambda left, right: None)
    for leaf in leaves:
        fold.push(TreeNode(0, leaf), None)
    return fold.nodes


class Fold(Generic[T]):
    """Sums nodes that come from left to right as far as the tree allows, like a binary counter.

    It holds no more than one node of a level: log2 of the number of leaves, plus one, where it begins with
    leaf 0, and twice that where it does not.
    """

    def __init__(self, num_leaves: int, add: Callable[[T, T], T]) -> None:
        """`add(left, right)` returns the sum; it may use up both."""
        self._num_leaves = num_leaves
        self._add = add
        self._held: list[tuple[TreeNode, T]] = []

    @property
    def nodes(self) -> list[TreeNode]:
        return [node for node, _ in self._held]

    @property
    def values(self) -> list[T]:
        """The sums at `nodes`."""
        return [value for _, value in self._held]

    def push(self, node: TreeNode, value: T) -> None:
        """Take what stands to the right of all that is held."""
        while not self._is_root(node):
            if node.number % 2 == 0:
                if not self._is_empty(TreeNode(node.level, node.number + 1)):
                    break
            elif self._held and self._held[-1][0] == TreeNode(node.level, node.number - 1):
                value = self._add(self._held.pop()[1], value)
            else:
                break
            node = TreeNode(node.level + 1, node.number // 2)
        self._held.append((node, value))

    def total(self) -> T:
        """The sum of all leaves; to be asked for once all have come."""
        [(node, value)] = self._held
        if not self._is_root(node):
            raise ValueError(f"{node} of a tree of {self._num_leaves} leaves is not the sum of all")
        return value

    def _is_root(self, node: TreeNode) -> bool:
        return node.number == 0 and 1 << node.level >= self._num_leaves

    def _is_empty(self, node: TreeNode) -> bool:
        return node.number << node.level >= self._num_leaves
