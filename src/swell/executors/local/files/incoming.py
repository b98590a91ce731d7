"""One file on its way here: asked for part by part, checked, and there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from swell.executors.hosts.file_messages import PART_BYTES, FilePart, NamedFile, NoFile, PartRequest
from swell.executors.local.files.background import Background
from swell.executors.local.files.places import digest_of, shown
from swell.wire.whole_files import sync

#: Parts of one file that are asked for and not yet written. More than one, so that the line is used while the
#: disk is; few, so that other messages need not wait behind them.
WINDOW = 2
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Cause(Enum):
    """Why a file has not come."""

    MISSING = "missing"  #: the other side has it no more
    DAMAGED = "damaged"  #: what came is not what its name says
    DISK = "disk"  #: it cannot be written here
    GIVEN_UP = "given up"  #: it is not waited for any more, or the other side is gone


@dataclass(frozen=True, slots=True)
class TransferFailure:
    cause: Cause
    why: str


class IncomingFile:
    """Holds `WINDOW` parts in memory at most. After `ended` was called nothing of it is left but the file."""

    def __init__(
        self,
        file: NamedFile,
        path: Path,
        ask: Callable[[PartRequest], None],
        background: Background,
        ended: Callable[[TransferFailure | None], None],
        num_bytes: int | None = None,
    ) -> None:
        """
        Args:
            path: where the file is to be. Its folder is made, unless it is there.
            ask: tells the other side.
            ended: called once; None: it is safe on disk.
            num_bytes: that it has; None: the first part tells.

        Raises:
            ValueError: the name has no digest.
        """
        self.file = file
        self._digest = digest_of(file)
        self._ask, self._background, self._ended = ask, background, ended
        self._draft = _Draft(path, self._digest)
        self._num_bytes = num_bytes
        self._asked = self._next = 0  #: positions: up to here it was asked for, and handed to be written
        self._parts: dict[int, bytes] = {}  #: have come, and cannot be written yet
        self._is_writing = self._is_over = False
        self._failure: TransferFailure | None = None  #: to be told when what is being written is

    def begin(self) -> None:
        """Ask for the first part."""
        self._asked = PART_BYTES
        self._ask(PartRequest(file=self.file, offset=0))

    def hear(self, message: FilePart | NoFile) -> None:
        """What was not asked for, or has come before, has no effect."""
        if self._is_over:
            return
        if isinstance(message, NoFile):
            self._end(TransferFailure(Cause.MISSING, message.why))
        elif self._next <= message.offset < self._asked and message.offset % PART_BYTES == 0:
            self._take(message)

    def give_up(self, why: str) -> None:
        """Nothing is left of it, unless the last part is being written. No effect if it has ended."""
        if not self._is_over:
            self._end(TransferFailure(Cause.GIVEN_UP, why))

    def _take(self, part: FilePart) -> None:
        length = min(PART_BYTES, max(0, part.num_bytes - part.offset))
        if self._num_bytes not in (None, part.num_bytes) or len(part.content) != length:
            self._end(self._damaged())
            return
        self._num_bytes = part.num_bytes
        self._parts[part.offset] = part.content
        self._write()

    def _write(self) -> None:
        """What can be, in order; one piece of work at a time."""
        if self._is_writing or (content := self._parts.pop(self._next, None)) is None:
            return
        assert self._num_bytes is not None  # noqa: S101 - a part has come
        self._next += PART_BYTES
        is_last = self._next >= self._num_bytes
        while self._asked < min(self._num_bytes, self._next + (WINDOW - 1) * PART_BYTES):
            self._asked += PART_BYTES
            self._ask(PartRequest(file=self.file, offset=self._asked - PART_BYTES))
        self._is_writing = True
        self._background(
            lambda: self._draft.append(content, is_last), lambda why: self._written(why, is_last)
        )

    def _written(self, failure: TransferFailure | None, is_last: bool) -> None:
        self._is_writing = False
        if is_last and failure is None:  # it is there, though it may have been given up meanwhile
            self._is_over = True
            self._ended(None)
        elif self._failure is not None:
            self._end(self._failure)
        elif failure is not None:
            self._end(self._damaged() if failure.cause is Cause.DAMAGED else failure)
        else:
            self._write()

    def _end(self, failure: TransferFailure) -> None:
        self._is_over = True
        self._parts.clear()
        if self._is_writing:
            self._failure = failure
        else:
            self._draft.drop()
            self._ended(failure)

    def _damaged(self) -> TransferFailure:
        return TransferFailure(
            Cause.DAMAGED, f"{shown(self.file)} came damaged: its content is not what its name says"
        )


class _Draft:
    """What has come of a file, under another name. Touched by one piece of work at a time."""

    def __init__(self, path: Path, digest: str) -> None:
        self._path, self._digest = path, digest
        # The pid keeps it from workers that tidy the folder up, see `train/state/checkpoint.py`.
        self._draft = path.with_name(f".draft-{os.getpid()}-{secrets.token_hex(4)}")
        self._hash = hashlib.sha256()
        self._descriptor: int | None = None

    def append(self, content: bytes, is_last: bool) -> TransferFailure | None:
        """After the last part it is checked, synced, and gets its name."""
        try:
            self._append(content)
            if not is_last:
                return None
            if self._hash.hexdigest() != self._digest:
                return TransferFailure(Cause.DAMAGED, "")
            self._name()
        except OSError as error:
            remedy = "; make room there" if error.errno in NO_ROOM else ""
            return TransferFailure(Cause.DISK, f"{self._path} cannot be written: {error.strerror}{remedy}")
        return None

    def _append(self, content: bytes) -> None:
        if self._descriptor is None:
            if not self._path.parent.is_dir():
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                sync(self._path.parent.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor = os.open(self._draft, flags, 0o600)
        self._hash.update(content)
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def _name(self) -> None:
        assert self._descriptor is not None  # noqa: S101 - something was appended
        os.fsync(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = None
        self._draft.rename(self._path)
        sync(self._path.parent)

    def drop(self) -> None:
        """Remove what is there of it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        with contextlib.suppress(OSError):  # on a disk that has failed it stays, and is tidied up later
            self._draft.unlink()
