"""One daemon per state folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from swell.store.errors import StateError, StateLocked

#: Seconds between two tries while waiting: the kernel offers no wait with a limit.
RETRY_S = 0.05


def find_holder(path: Path) -> int | None:
    """The process that holds the lock; None if none does, or if it cannot be told."""
    lock = StateLock(path)
    try:
        lock.acquire()
    except StateLocked:
        pid = path.read_text().strip()
        return int(pid) if pid.isdecimal() and _has_open(int(pid), path) else None
    lock.release()
    return None


def _has_open(pid: int, path: Path) -> bool:
    """A number in a file may be another process's by now: the one that is meant has the file open."""
    try:
        return any(
            os.path.samefile(link, path) for link in Path(f"/proc/{pid}/fd").iterdir() if link.exists()
        )
    except OSError:
        return False


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Wait until no other thread or process is inside with this file. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class StateLock:
    """An exclusive lock on a file, which the kernel opens again when its holder dies.

    The file stays and holds the pid of its last holder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self, timeout_s: float = 0.0) -> None:
        """Take the lock, waiting up to `timeout_s` for its holder to end.

        Raises:
            StateLocked: another process holds it; the text names its pid.
            StateError: the file cannot be opened.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StateError(
                f"cannot write {self._path} ({error.strerror}); make the folder writable for you, "
                "or choose another one with --state"
            ) from error
        give_up_s = time.monotonic() + timeout_s
        while not _try_lock(descriptor):
            if time.monotonic() >= give_up_s:
                holder = os.pread(descriptor, 32, 0).decode().strip() or "unknown"
                os.close(descriptor)
                raise StateLocked(
                    f"state folder {self._path.parent} is in use by a running platform (pid {holder}), or "
                    "by a command that restores or prunes it: stop the platform with `swell down` "
                    "(`--force` if it does not answer), wait for the command, or choose another folder with "
                    "--state"
                )
            time.sleep(RETRY_S)
        text = f"{os.getpid()}\n".encode()
        with contextlib.suppress(OSError):  # on a full disk: it only helps the next one to a better message
            os.pwrite(descriptor, text, 0)
            os.ftruncate(descriptor, len(text))
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go; no effect if it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> StateLock:
        if self._descriptor is None:
            self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
