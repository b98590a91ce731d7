"""One object for values that are equal: thousands of jobs have the same request, and the same profile."""

from __future__ import annotations

from typing import Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec

T = TypeVar("T")


class EqualValues(Generic[T]):
    """Interning table for structs that never change; it keeps no value that is not used elsewhere."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[int, T] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._known)

    def one_for(self, value: T) -> T:
        """An equal value that was given before, if somebody still has it; else this one."""
        known = self._known.setdefault(hash(msgspec.msgpack.encode(value)), value)
        return known if known == value else value
