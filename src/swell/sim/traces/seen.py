"""Ids that a trace has had, in few bytes each: those of a hundred million jobs would fill a machine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Ids that differ only in their last three digits or so share a page: a bit each, for this many numbers.
NUM_ON_PAGE = 1 << 12
PAGE_BYTES = NUM_ON_PAGE // 8
#: No more pages are begun once there are so many, and fewer than `LEAST_ON_PAGE` ids on each.
NUM_FREE_PAGES = 64
LEAST_ON_PAGE = 64
MOST_DIGITS = 18

#: So many newest hashes are in sets; older ones are in sorted arrays of 8 bytes each.
NUM_NEWEST = 1 << 18
#: Hashes are kept in so many parts, for while one part is merged it takes twice its room.
NUM_PARTS = 64

Page = tuple[str, int, int]


class SeenIds:
    """Answers whether an id was there before.

    Ids that end in numbers which lie close together, as those of most logs, take a bit or two each. Of the
    others the hash is kept.
    """

    def __init__(self) -> None:
        self._pages: dict[Page, bytearray] = {}
        self._num_on_pages = 0
        self._is_dense = True  #: no page was refused yet
        self._hashes = SeenHashes()

    def add(self, job_id: str) -> bool:
        """False if it was there already."""
        head = job_id.rstrip("0123456789")
        num_digits = len(job_id) - len(head)
        if not 0 < num_digits <= MOST_DIGITS:
            return self._hashes.add(hash(job_id))
        page, at = divmod(int(job_id[len(head) :]), NUM_ON_PAGE)
        bits = self._page((head, num_digits, page))  # 7 is not 07
        if bits is None:
            return self._hashes.add(hash(job_id))
        byte, mask = at >> 3, 1 << (at & 7)
        if bits[byte] & mask:
            return False
        bits[byte] |= mask
        self._num_on_pages += 1
        return True

    def _page(self, key: Page) -> bytearray | None:
        """None if ids lie too far apart. A page is begun with the first of its ids, or never."""
        bits = self._pages.get(key)
        if bits is None and self._is_dense:
            most = NUM_FREE_PAGES + self._num_on_pages // LEAST_ON_PAGE
            self._is_dense = len(self._pages) < most
            if self._is_dense:
                bits = self._pages[key] = bytearray(PAGE_BYTES)
        return bits


class SeenHashes:
    """Answers whether a hash of 64 bits was there before, in 8 bytes each.

    Two of n things that differ are taken for one with probability n^2 / 2^65: 1e-9 for 200,000.
    """

    def __init__(self) -> None:
        self._parts = [IdPartition() for _ in range(NUM_PARTS)]

    def add(self, key: int) -> bool:
        """False if it was there already."""
        return self._parts[key % NUM_PARTS].add(key)


class IdPartition:
    """Hashes in sorted arrays, merged when one is not half as long as the one before: at most log2(n)."""

    def __init__(self) -> None:
        self._newest: set[int] = set()
        self._older: list[npt.NDArray[np.int64]] = []

    def add(self, key: int) -> bool:
        if key in self._newest or any(_is_in(key, keys) for keys in self._older):
            return False
        self._newest.add(key)
        if len(self._newest) * NUM_PARTS >= NUM_NEWEST:
            self._put_away()
        return True

    def _put_away(self) -> None:
        keys = np.fromiter(self._newest, dtype=np.int64, count=len(self._newest))
        self._newest = set()
        while self._older and len(self._older[-1]) < 2 * len(keys):
            keys = np.concatenate((self._older.pop(), keys))
        keys.sort()
        self._older.append(keys)


def _is_in(key: int, keys: npt.NDArray[np.int64]) -> bool:
    at = int(keys.searchsorted(key))
    return at < len(keys) and int(keys[at]) == key
