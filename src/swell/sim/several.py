"""Things to be gone through as often as one likes, which need not all be in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


class Several(Protocol[Item_co]):
    """A tuple is it, and so is whatever reads or makes its items one by one, the same each time."""

    def __iter__(self) -> Iterator[Item_co]: ...

    def __len__(self) -> int: ...


class Remade(Generic[Item]):
    """Items that are made anew each time. Implements `Several`.

    Args:
        num: of the items that `make` gives.
    """

    def __init__(self, num: int, make: Callable[[], Iterator[Item]]) -> None:
        self._num = num
        self._make = make

    def __iter__(self) -> Iterator[Item]:
        return self._make()

    def __len__(self) -> int:
        return self._num
