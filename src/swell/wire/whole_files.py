"""Files that are there whole or not at all, and that survive a power cut where they must."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: Path, content: bytes, *, mode: int = 0o600, is_synced: bool = False) -> None:
    """Write or replace a file: a reader sees the old one or the new one, also after a kill.

    Args:
        mode: of the file, from its first byte on.
        is_synced: return once the content is on the disk.

    Raises:
        OSError: `path` is as it was.
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
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def make_folder(path: Path) -> None:
    """Make a folder of this user's, if there is none, that survives a power cut as the files in it do."""
    if not path.is_dir():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync(path.parent)


def sync(path: Path) -> None:
    """What was written to this file, or the names in this folder, survive a power cut. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
