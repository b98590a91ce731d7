"""Folders of slices on a node, below one of all users: each has a join token and checkpoints in it.

Slurm may kill a slice with all of its processes. The next one on the node removes what such a slice has left.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path

from swell.executors.local.processes.strays import end_strays
from swell.executors.node.private_folder import make_private_folder

#: In the folder of a slice: locked for as long as the slice has a process.
LOCK_FILE = "lock"
#: In the folder of a slice: that of its host.
STATE_FOLDER = "state"


def claim_folder(parent: Path, platform: str, name: str) -> Path:
    """Make the folder of a slice. It is claimed until this process has ended, and those that it has forked.

    Raises ForeignFolder; OSError.
    """
    root = make_private_folder(parent, [f"swell-slurm-{os.getuid()}"])
    claiming = os.open(root, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(claiming, fcntl.LOCK_EX)  # no other slice takes a folder that has yet to be claimed
        _remove_left_folders(root)
        folder = make_private_folder(root, (platform, name))
        claim = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(claim, fcntl.LOCK_EX)  # and never closed: the kernel does that
    finally:
        os.close(claiming)
    return folder


def remove_folder(folder: Path) -> None:
    """End what the host of a slice has left behind, and remove its folder. No other host has its name."""
    end_strays(folder / STATE_FOLDER)
    shutil.rmtree(folder, ignore_errors=True)


def _remove_left_folders(root: Path) -> None:
    for lock in root.glob(f"*/*/{LOCK_FILE}"):
        with suppress(FileNotFoundError):  # its slice has just ended
            claim = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
            try:
                with suppress(BlockingIOError):
                    fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_folder(lock.parent)
            finally:
                os.close(claim)
