"""A folder that reads like a job's working directory, for its trial run to write in.

Where the kernel lets it, all else that the run writes goes into layers of its own (`become_private`).
Elsewhere only the mirror is its own: files are copied while they are small and few, other things are links to
the real ones. So what a script creates, or writes over, by a relative path stays in the mirror, within the
limits below:

* a file of more than `MAX_FILE_BYTES`, and every file once `MAX_COPIED_BYTES` are copied, is a link: who
  opens it to write does so in the real file;
* a folder is a link as a whole if its name begins with a dot, if it is a link itself or another file system,
  if it holds the mirror, or if there is no room for its entries among the first `MAX_ENTRIES`, counted level
  by level.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections import deque
from itertools import islice
from pathlib import Path

from swell.wire.private_files import can_be_private, make_private

#: Within the folder of a mirror.
LAYERS = ".layers"
MAX_ENTRIES = 10_000
MAX_FILE_BYTES = 2**20
MAX_COPIED_BYTES = 2**26


def mirrored(workdir: str, scratch: str) -> str:
    """The mirror of a working directory, made below `scratch`; the folders above it are mirrored by links.

    So `../data` is there too. A working directory with more than `MAX_ENTRIES` at its top is returned as it
    is: that many links would take longer than the trial run.

    Raises:
        OSError: there is no room for it.
    """
    source = Path(os.path.realpath(workdir))
    mirror = _Mirror(source.stat().st_dev, os.path.realpath(scratch))
    entries = _entries_of(source, MAX_ENTRIES)
    if entries is None:
        print(
            f"{workdir} has more than {MAX_ENTRIES} entries: the trial run takes place in it, not in a copy"
        )
        return workdir
    target = Path(scratch, *source.parts[1:])
    target.mkdir(parents=True, exist_ok=True)
    mirror.fill(target, entries)
    for child in (source, *source.parents[:-1]):
        _link_siblings(child, Path(scratch, *child.parts[1:]))
    return str(target)


def become_private(scratch: str) -> None:
    """Have what this process writes stay in layers below `scratch`, where the kernel lets it."""
    room = os.path.join(scratch, LAYERS)
    os.mkdir(room, 0o700)
    if can_be_private(room):
        make_private(room)
        return
    print(
        "this machine gives the trial run no files of its own: what it writes by absolute paths is written "
        "there, and it ends before the end of an epoch"
    )


class _Mirror:
    """Counts what it makes."""

    def __init__(self, device: int, scratch: str) -> None:
        self._device = device
        self._scratch = scratch
        self._num_entries = 0
        self._copied_bytes = 0
        self._folders: deque[tuple[Path, Path]] = deque()  #: source, target: yet to be made

    def fill(self, target: Path, entries: list[os.DirEntry[str]]) -> None:
        self._add_all(entries, target)
        while self._folders:
            folder, target = self._folders.popleft()
            within = _entries_of(folder, MAX_ENTRIES - self._num_entries)
            if within is None:
                target.symlink_to(folder)
            else:
                target.mkdir()
                self._add_all(within, target)

    def _add_all(self, entries: list[os.DirEntry[str]], target: Path) -> None:
        self._num_entries += len(entries)
        for entry in entries:
            with contextlib.suppress(
                FileNotFoundError
            ):  # others may write here, and it was one of their drafts
                self._add(entry, target / entry.name)

    def _add(self, entry: os.DirEntry[str], target: Path) -> None:
        found = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode) and found.st_dev == self._device and self._is_entered(entry):
            self._folders.append((Path(entry.path), target))
        elif not (stat.S_ISREG(found.st_mode) and self._is_copied(entry.path, found.st_size, target)):
            target.symlink_to(entry.path)

    def _is_entered(self, entry: os.DirEntry[str]) -> bool:
        """The mirror must not mirror itself."""
        return not entry.name.startswith(".") and not f"{self._scratch}/".startswith(f"{entry.path}/")

    def _is_copied(self, path: str, num_bytes: int, target: Path) -> bool:
        is_small = num_bytes <= MAX_FILE_BYTES and self._copied_bytes + num_bytes <= MAX_COPIED_BYTES
        if not is_small or not os.access(path, os.R_OK):
            return False
        self._copied_bytes += num_bytes
        shutil.copy2(path, target)
        return True


def _link_siblings(folder: Path, target: Path) -> None:
    """What stands beside the folder stands, as links, beside its mirror."""
    for entry in _entries_of(folder.parent, MAX_ENTRIES) or ():
        if entry.name != folder.name:
            (target.parent / entry.name).symlink_to(entry.path)


def _entries_of(folder: Path, most: int) -> list[os.DirEntry[str]] | None:
    """What is in the folder; None if that is too much, or cannot be read."""
    try:
        with os.scandir(folder) as found:
            entries = list(islice(found, most + 1))
    except (PermissionError, FileNotFoundError):
        return None
    return None if len(entries) > most else entries
