"""Which checkpoint files are sound, and what becomes of those that are damaged."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from swell.wire.checkpoint_files import is_whole

#: What reading a file fails with where the disk has lost a part of it, or all.
LOST = (errno.EIO, errno.ENOENT, errno.ESTALE)
#: Where damaged files are moved to, in the folder of the checkpoints.
QUARANTINE = "damaged"
#: Damaged files that are kept there.
MAX_QUARANTINED = 2


class Verifier:
    """Knows which files this process has written or read whole: each is hashed once, unless it has changed.

    A file has changed where its number, size or times have. A bit that flips on the disk by itself changes
    none of them, and is found by the next process.
    """

    def __init__(self) -> None:
        self._known: dict[Path, tuple[int, ...]] = {}

    def note_sound(self, path: Path) -> None:
        """This process has just written it."""
        self._known[path] = _identity(path)

    def is_sound(self, path: Path, digest: str) -> bool:
        """Whether the content has this SHA-256.

        Raises:
            OSError: it cannot be read, which says nothing of the content.
        """
        try:
            identity = _identity(path)
            if self._known.get(path) == identity:
                return True
            is_sound = is_whole(path, digest)
        except OSError as error:
            if error.errno in LOST:
                return False
            raise
        if is_sound:
            self._known[path] = identity
        return is_sound

    def forget(self, path: Path) -> None:
        """It is removed."""
        self._known.pop(path, None)


def quarantine(path: Path) -> None:
    """Move a damaged file out of the way. The oldest of those that were moved before go."""
    folder = path.parent / QUARANTINE
    folder.mkdir(mode=0o700, exist_ok=True)
    os.rename(path, folder / path.name)
    os.utime(folder / path.name)
    by_age = sorted(folder.iterdir(), key=lambda held: held.stat().st_mtime_ns, reverse=True)
    for old in by_age[MAX_QUARANTINED:]:
        old.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
