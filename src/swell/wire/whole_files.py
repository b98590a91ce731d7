"""Files that are there whole or not at all, survive a power cut where they must, and are locks."""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path


def write_whole(path: Path, content: bytes, *, mode: int = 0o600, is_synced: bool = False) -> None:
    """Write or replace a file: a reader sees the old one or the new one, also after a kill.

    Args:
        mode: of the file, from its first byte on.
        is_synced: return once the content, under its name, is on the disk.

    Raises:
        OSError: `path` is as it was, or that it has changed may not survive a power cut.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if is_synced:
                os.fsync(descriptor)
        draft.replace(path)
        if is_synced:
            sync(path.parent)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def make_folder(path: Path) -> None:
    """Make a folder that its group may read, if there is none, and that survives a power cut."""
    if not path.is_dir():
        path.mkdir(mode=0o750, parents=True, exist_ok=True)
        sync(path.parent)


def try_lock(descriptor: int) -> bool:
    """Lock a file for the processes that have this descriptor. False if others hold the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sync(path: Path) -> None:
    """What was written to this file, or the names in this folder, survive a power cut. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
