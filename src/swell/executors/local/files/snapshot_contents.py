"""Which contents a snapshot of code has: a host may have those of its jobs' code and no others."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import msgspec

from swell.executors.code_tree import read_tree

#: Snapshots whose lists of contents are kept in memory.
NUM_KEPT = 64


class SnapshotContents:
    """Contents of the code snapshots in one state folder. Call it in the background: it reads manifests."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._read = lru_cache(maxsize=NUM_KEPT)(self._digests)

    def has(self, codes: Iterable[str], digest: str) -> bool:
        """Whether one of these snapshots, by their digests, has this content."""
        return any(digest in self._read(code) for code in codes)

    def _digests(self, code: str) -> frozenset[str]:
        """None, if it cannot be read: then there is nothing to send either."""
        try:
            tree = read_tree(self._state_dir, code)
        except (OSError, ValueError, msgspec.MsgspecError):
            tree = None
        return frozenset() if tree is None else frozenset(file.digest for file in tree.files.values())
