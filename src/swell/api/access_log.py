"""Who did what: one line of JSON for each change and each refusal, in a file of bounded size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from swell.store.lock import exclusive

ACCESS_FILE = "access.jsonl"
LOCK_FILE = "access.lock"


class AccessEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request, without what it carried. Times are seconds since 1970."""

    at_s: float
    user: str = ""  #: empty: the request had no token that is in force
    role: str = ""
    operation: str = ""  #: as in the API's document; empty: it was refused before that was known
    about: str = ""  #: id of the job, or name of the node, user or tenant
    status: int  #: of the answer


class AccessLog:
    """Access log in two files: the older one is dropped once the newer one has half of `max_bytes`.

    Several processes and threads may write.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._path = folder / ACCESS_FILE
        self._former = folder / f"{ACCESS_FILE}.1"
        self._lock = folder / LOCK_FILE
        self._max_bytes = max_bytes

    def append(self, entry: AccessEntry) -> None:
        """Raises OSError."""
        line = msgspec.json.encode(entry) + b"\n"
        with exclusive(self._lock):
            if (size := self._size()) and size + len(line) > self._max_bytes // 2:
                self._path.replace(self._former)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                file.write(line)

    def entries(self) -> Iterator[AccessEntry]:
        """Oldest first. A line that a kill or a full disk has cut is left out."""
        with exclusive(self._lock):
            texts = [_content(path) for path in (self._former, self._path)]
        for line in b"".join(texts).splitlines():
            try:
                yield msgspec.json.decode(line, type=AccessEntry)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
