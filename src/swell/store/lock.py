"""One daemon per state folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from swell.store.errors import StateError, StateHeld
from swell.wire.whole_files import try_lock

#: Seconds between two tries while waiting: the kernel offers no wait with a limit.
RETRY_S = 0.05


def find_holder(path: Path) -> int | None:
    """The process that holds the lock; None if none does, or if it cannot be told.

    The number in the file may be another process's by now: the one that is meant has the file open.
    """
    try:
        pid = int(path.read_text())
        links = list(Path(f"/proc/{pid}/fd").iterdir())
        return pid if any(os.path.samefile(link, path) for link in links if link.exists()) else None
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Wait until no other thread or process is inside with this file. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def lock_state(path: Path, timeout_s: float = 0.0) -> FileIO:
    """Lock a state folder by this file in it, waiting so long for its holder to end.

    The lock is given back when the file that this returns is closed, or when the process dies. The file stays
    and holds the pid of its last holder.

    Raises:
        StateHeld: another process holds it; the text names its pid.
        StateError: the file cannot be opened.
    """
    try:
        file = FileIO(path, "r+", opener=lambda name, flags: os.open(name, flags | os.O_CREAT, 0o600))
    except OSError as error:
        raise StateError(
            f"cannot write {path} ({error.strerror}); make the folder writable for you, or choose another "
            "one with --state"
        ) from error
    give_up_s = time.monotonic() + timeout_s
    while not try_lock(file.fileno()):
        if time.monotonic() >= give_up_s:
            holder = os.pread(file.fileno(), 32, 0).decode().strip() or "unknown"
            file.close()
            raise StateHeld(
                f"state folder {path.parent} is in use by a running platform (pid {holder}), or by a command "
                "that restores or prunes it: stop the platform with `swell down` (`--force` if it does not "
                "answer), wait for the command, or choose another folder with --state"
            )
        time.sleep(RETRY_S)
    with contextlib.suppress(OSError):  # on a full disk: it only helps the next one to a better message
        file.write(f"{os.getpid()}\n".encode())
        file.truncate()
    return file
