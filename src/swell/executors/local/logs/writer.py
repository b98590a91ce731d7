"""One worker's output on its way to disk: rotated by size; what cannot be written is dropped and counted."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from swell.executors.local.logs.pieces import begin_of_newest, begins_of, mark_as_written, piece_path

#: A disk that was full is tried again at most so often.
RETRY_S = 0.2
NEWLINE = ord("\n")


def gap_line(num_bytes: int, why: str, is_line_begun: bool) -> bytes:
    """What stands in a log in place of so many bytes of it."""
    begin = "\n" if is_line_begun else ""
    return f"{begin}[swell: {num_bytes} bytes of output were dropped here: {why}]\n".encode()


class LogWriter:
    """Appends to a log. No call fails because of the disk.

    The newest `keep_bytes` are kept, in two files at most, or all if it is 0. Where bytes were dropped a line
    in the log says how many.
    """

    def __init__(
        self,
        path: Path,
        keep_bytes: int = 0,
        write: Callable[[int, bytes], int] = os.write,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._piece_bytes = keep_bytes // 2
        self._write = write
        self._clock = clock
        self._descriptor: int | None = None
        self._begin = 0  # position of the first byte of the file that is being written
        self._size = 0
        self._ends_line = True
        self._retry_s = 0.0
        self.num_dropped = 0  #: bytes since the disk could last be written
        self.why = ""  #: they were dropped
        try:
            self._open()
            self._begin = begin_of_newest(path)
        except OSError as error:
            self._drop(0, error)

    @property
    def is_dropping(self) -> bool:
        """Whether output is dropped because it cannot be written; `why` names the error."""
        return bool(self.why)

    @property
    def end(self) -> int:
        """The position behind the last byte that was written."""
        return self._begin + self._size

    @property
    def is_gone(self) -> bool:
        """The folder was removed: there is nothing to say any more, and no place to say it."""
        return not self._path.parent.is_dir()

    def append(self, content: bytes) -> None:
        if self.is_dropping and not self.try_again():
            self.num_dropped += len(content)
            return
        while content:
            try:
                descriptor, part = self._place_for(content)
                written = self._write(descriptor, part)
            except OSError as error:
                self._drop(len(content), error)
                return
            self._size += written
            self._ends_line = content[written - 1] == NEWLINE
            content = content[written:]

    def try_again(self, at_once: bool = False) -> bool:
        """Whether the disk can be written again: then the log says what is missing."""
        now_s = self._clock()
        if now_s < self._retry_s and not at_once:
            return False
        self._retry_s = now_s + RETRY_S
        try:
            self._mark()
        except OSError as error:
            self.why = error.strerror or str(error)
            return False
        self.num_dropped, self.why = 0, ""
        return True

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _drop(self, num_bytes: int, error: OSError) -> None:
        self.num_dropped += num_bytes
        self.why = error.strerror or str(error)
        self._retry_s = self._clock() + RETRY_S

    def _mark(self) -> None:
        """The whole line, or none of it. Raises OSError."""
        descriptor = self._open()
        if not self.num_dropped:
            return
        line = rest = gap_line(self.num_dropped, self.why, not self._ends_line)
        size = os.fstat(descriptor).st_size
        try:
            while rest:
                rest = rest[self._write(descriptor, rest) :]
        except OSError:
            os.ftruncate(descriptor, size)
            raise
        self._size += len(line)
        self._ends_line = True

    # ------------------------------------------------------------ rotation
    def _open(self) -> int:
        """The file that is being written. Raises OSError."""
        if self._descriptor is None:
            # For reading, too: else NFS has no lock for it.
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o600)
            mark_as_written(self._descriptor)
            self._size = os.fstat(self._descriptor).st_size
        return self._descriptor

    def _place_for(self, content: bytes) -> tuple[int, bytes]:
        """Return the log file to append to, and the part of `content` that fits into it.

        Files are rotated between two lines where that can be done.
        """
        for _ in range(2):
            descriptor = self._open()
            room = self._piece_bytes - self._size
            if not self._piece_bytes or len(content) <= room:
                return descriptor, content
            if cut := content.rfind(b"\n", 0, max(room, 0)) + 1:
                return descriptor, content[:cut]
            if self._size == 0:  # a line longer than a file
                return descriptor, content[:room]
            self._rotate(descriptor)
        return self._open(), content[: self._piece_bytes]

    def _rotate(self, descriptor: int) -> None:
        """The former file is removed last: readers learn positions from the names of those that are there."""
        former = [begin for begin in begins_of(self._path) if begin != self._begin]
        size = os.fstat(descriptor).st_size  # not as counted if its owner has truncated it
        with contextlib.suppress(FileNotFoundError):  # its owner has removed it
            os.rename(self._path, piece_path(self._path, self._begin))
        self.close()
        self._begin += size
        self._size = 0
        for begin in former:
            piece_path(self._path, begin).unlink(missing_ok=True)
