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
    source, own = Path(os.path.realpath(workdir)), os.path.realpath(scratch)
    if _entries_of(source, MAX_ENTRIES) is None:
        print(
            f"{workdir} has more than {MAX_ENTRIES} entries: the trial run takes place in it, not in a copy"
        )
        return workdir
    _fill(source, Path(scratch, *source.parts[1:]), own)
    for child in (source, *source.parents[:-1]):
        for entry in _entries_of(child.parent, MAX_ENTRIES) or ():
            if entry.name != child.name:
                Path(scratch, *child.parts[1:-1], entry.name).symlink_to(entry.path)
    return str(Path(scratch, *source.parts[1:]))


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


def _fill(source: Path, target: Path, scratch: str) -> None:
    """Make the mirror of a folder. `scratch`: holds the mirror, which must not mirror itself."""
    device, num_entries, copied_bytes = source.stat().st_dev, 0, 0
    folders = deque([(source, target)])
    while folders:
        folder, there = folders.popleft()
        entries = _entries_of(folder, MAX_ENTRIES - num_entries)
        if entries is None:
            there.symlink_to(folder)
            continue
        there.mkdir(parents=True)
        num_entries += len(entries)
        for entry in entries:
            # Others may write here, and it was one of their drafts.
            with contextlib.suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                is_link = entry.name.startswith(".") or f"{scratch}/".startswith(f"{entry.path}/")
                if stat.S_ISDIR(found.st_mode) and found.st_dev == device and not is_link:
                    folders.append((Path(entry.path), there / entry.name))
                elif (
                    stat.S_ISREG(found.st_mode)
                    and found.st_size <= min(MAX_FILE_BYTES, MAX_COPIED_BYTES - copied_bytes)
                    and os.access(entry.path, os.R_OK)
                ):
                    copied_bytes += found.st_size
                    shutil.copy2(entry.path, there / entry.name)
                else:
                    (there / entry.name).symlink_to(entry.path)


def _entries_of(folder: Path, most: int) -> list[os.DirEntry[str]] | None:
    """What is in the folder; None if that is too much, or cannot be read."""
    try:
        with os.scandir(folder) as found:
            entries = list(islice(found, most + 1))
    except (PermissionError, FileNotFoundError):
        return None
    return None if len(entries) > most else entries
