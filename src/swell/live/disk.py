"""Room on the disk of the state folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class Space(NamedTuple):
    """Space of a file system in bytes: what an ordinary user may still write, and the total."""

    free: int
    total: int


def space_of(folder: Path) -> Space:
    """Space of the disk that the folder is on, or will be."""
    while not folder.exists():
        folder = folder.parent
    found = os.statvfs(folder)
    return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)
