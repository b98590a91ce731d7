"""Workers' output on its way to disk: it waits in memory for threads that write it, for the disk may hang.

Logs are rotated by size. What cannot be written for long is dropped, and a line in the log says how much.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from swell.executors.local.logs.files import begins_of, discard_logs, mark_as_written, piece_path
from swell.wire.untrusted_files import open_regular

#: A disk that was full is tried again so often.
RETRY_S = 0.2
#: A disk that has written nothing for so long does not answer.
ANSWER_WITHIN_S = 2.0
NO_ANSWER = "the storage does not answer"
#: What waits in memory for one log, and how much of it is written at once.
MOST_WAITING_BYTES, CHUNK_BYTES = 4 << 20, 256 << 10
#: A job's logs are discarded by files; each has this part of what they may hold together.
FILES_OF_JOB = 32
NEWLINE = ord("\n")


class LogWriter:
    """Appends to a log. `flush` alone touches the disk, in a thread, and no call fails because of it.

    Of all logs in its folder together `keep_bytes` are kept, see `discard_logs`, or all if it is 0.
    """

    def __init__(
        self,
        path: Path,
        keep_bytes: int = 0,
        write: Callable[[int, bytes], int] = os.write,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._keep_bytes, self._piece_bytes = keep_bytes, keep_bytes // FILES_OF_JOB
        self._write = write
        self._clock = clock
        self._is_due = threading.Event()
        self._lock = threading.Lock()  # of what follows; it is not held while the disk is waited for
        self._waiting = bytearray()
        self._moved_s = 0.0  # when some of it was last written
        self._num_lost = 0  # bytes dropped behind what waits
        self._lost_why = ""
        # What follows is the flushing thread's.
        self._descriptor: int | None = None
        self._begin: int | None = None  # position of the first byte of the file that is being written
        self._size = 0
        self._ends_line = True
        self._error = ""
        self._is_ended = False
        self.is_over = False  #: it has ended, and nothing is left to write, or its folder was removed

    # ------------------------------------------------------------ for its owner
    def start(self, wake: Callable[[], None]) -> None:
        """Make the log, and write what comes in a thread, which calls `wake` when it has written."""

        def write() -> None:
            while not self.is_over:
                self._is_due.wait(RETRY_S if self._error else None)
                self._is_due.clear()
                while self.flush():
                    pass
                wake()

        self._is_due.set()
        threading.Thread(target=write, name="swell-log", daemon=True).start()

    @property
    def _is_waiting(self) -> bool:
        """Whether there is something to write, or the end to be noted."""
        return self._has_more or (self._is_ended and not self.is_over)

    @property
    def _has_more(self) -> bool:
        return bool(self._waiting or self._num_lost)

    @property
    def trouble(self) -> str:
        """Why output cannot be written; empty: it can."""
        is_late = self._is_waiting and self._clock() >= self._moved_s + ANSWER_WITHIN_S
        return self._error or (NO_ANSWER if is_late else "")

    @property
    def is_full(self) -> bool:
        """Whether a slow disk should be given time, and not more output."""
        return bool(self._num_lost or len(self._waiting) >= MOST_WAITING_BYTES) and not self.trouble

    def append(self, content: bytes) -> None:
        with self._lock:
            if not self._is_waiting:
                self._moved_s = self._clock()
            if self._num_lost or (len(self._waiting) >= MOST_WAITING_BYTES and self.trouble):
                self._num_lost += len(content)
                self._lost_why = self.trouble or self._lost_why
            else:
                self._waiting += content
        self._is_due.set()

    def end(self) -> None:
        """Nothing more comes: `flush` is to close it."""
        if not self._is_waiting:
            self._moved_s = self._clock()
        self._is_ended = True
        self._is_due.set()

    # ------------------------------------------------------------ for the thread that writes
    def flush(self) -> bool:
        """Write some of what waits. Returns whether there is more to do now."""
        is_refused = is_gone = False
        try:
            self._open()
            if content := self._next():
                if self._piece_bytes and self._size >= self._piece_bytes:
                    self._rotate()
                room = self._piece_bytes - self._size if self._piece_bytes else len(content)
                written = self._write(self._open(), content[:room])
                self._size += written
                self._ends_line = content[written - 1] == NEWLINE
                with self._lock:
                    del self._waiting[:written]
                    self._moved_s = self._clock()
            if not self._has_more:
                self._error = ""
        except OSError as error:
            is_refused, is_gone = True, not os.path.isdir(self._path.parent)
            self._error = error.strerror or str(error)
        if self._is_ended and (is_gone or not self._has_more):
            self._close()
            self._waiting, self._num_lost, self._error = bytearray(), 0, ""
            self.is_over = True
        return self._has_more and not is_refused

    def _next(self) -> bytes:
        with self._lock:
            if self._num_lost and not self._waiting:
                begin, why = "" if self._ends_line else "\n", self._lost_why
                gap = f"{begin}[swell: {self._num_lost} bytes of output were dropped here: {why}]\n"
                self._waiting += gap.encode()
                self._num_lost = 0
            return bytes(self._waiting[: min(CHUNK_BYTES, self._piece_bytes or CHUNK_BYTES)])

    def _close(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):  # by then it is closed all the same
                os.close(self._descriptor)
            self._descriptor = None

    # ------------------------------------------------------------ rotation
    def _open(self) -> int:
        """The file that is being written. Raises OSError."""
        if self._begin is None:
            self._begin = max(begins_of(self._path), default=0)
            self._make_room()
        if self._descriptor is None:
            # For reading, too: else NFS has no lock for it.
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
            self._descriptor = open_regular(piece_path(self._path, self._begin), flags)
            mark_as_written(self._descriptor)
            self._size = os.fstat(self._descriptor).st_size
        return self._descriptor

    def _rotate(self) -> None:
        """Go on in another file."""
        begin = self._begin or 0
        size = os.fstat(self._open()).st_size  # not as counted if its owner has truncated it
        self._close()
        self._begin, self._size = begin + size, 0
        self._make_room()

    def _make_room(self) -> None:
        """For one more file: what is printed now is worth more than what cannot be removed."""
        if self._keep_bytes:
            with contextlib.suppress(OSError):
                discard_logs(self._path.parent, self._keep_bytes - self._piece_bytes)
