"""Sources of items that can be iterated as often as one likes, and need not all be in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


class ItemSource(Protocol[Item_co]):
    """Source of the same items each time: a tuple, or an object that reads or makes them one by one."""

    def __iter__(self) -> Iterator[Item_co]: ...

    def __len__(self) -> int: ...


class RepeatedItems(Generic[Item]):
    """Items that are made again each time. Implements `ItemSource`.

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
