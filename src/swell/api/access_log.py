"""Who did what: one line of JSON for each change and each refusal."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

ACCESS_FILE = "access.jsonl"


class AccessEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request, without what it carried. Times are seconds since 1970."""

    at_s: float
    user: str = ""  #: empty: the request had no token that is in force
    role: str = ""
    operation: str = ""  #: as in the API's document; empty: it was refused before that was known
    about: str = ""  #: id of the job, or name of the node, user or tenant
    status: int  #: of the answer


class AccessLog:
    """Access log in one file, of which lines are added at the end: a tool such as logrotate may move it away.

    Several processes and threads may write: a line is one write.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ACCESS_FILE

    def append(self, entry: AccessEntry) -> None:
        """Raises OSError."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(msgspec.json.encode(entry) + b"\n")
