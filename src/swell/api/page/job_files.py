"""The files of a job that its page shows: checkpoints, and the snapshot of its code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from swell.live.submitter import CHECKPOINTS
from swell.model.code import CodeTree, decode_tree, job_tree_path, object_path
from swell.wire.checkpoint_files import checkpoints_in, order_in

#: Rows of each list. The rest is counted.
MOST_CHECKPOINTS = 50
MOST_FILES = 300
#: A larger file of a snapshot is named, and not shown.
MOST_SHOWN_BYTES = 256 << 10


class NotShown(Exception):
    """A file of a snapshot cannot be shown; the argument says why."""


class Checkpoint(NamedTuple):
    """A file from which the job, or another one, can go on."""

    name: str
    steps: int
    num_bytes: int
    at_s: float  #: written


class CodeList(NamedTuple):
    """What is known of a snapshot."""

    roots: tuple[str, ...]
    num_bytes: int
    num_files: int
    #: Absolute paths as their user has them, names in the folder in which they were found, and sizes: of the
    #: first `MOST_FILES`, the job's script first.
    files: list[tuple[str, str, int]]


def read_checkpoints(job_dir: Path) -> tuple[list[Checkpoint], int]:
    """The newest ones, newest first, and how many there are in all."""
    paths = [path for _, path in checkpoints_in(job_dir / CHECKPOINTS)]
    found = []
    for path in paths[:MOST_CHECKPOINTS]:
        try:
            state = path.stat()
        except FileNotFoundError:  # removed for a newer one
            continue
        found.append(Checkpoint(path.name, order_in(path)[0], state.st_size, state.st_mtime))
    return found, len(paths)


def checkpoint_path(job_dir: Path, name: str) -> Path | None:
    """The checkpoint of this name; None if there is none, or it is no file of its own."""
    found = (path for _, path in checkpoints_in(job_dir / CHECKPOINTS) if path.name == name)
    return next((path for path in found if path.is_file() and not path.is_symlink()), None)


def read_code(job_dir: Path, entry: str) -> CodeList | None:
    """None: the job runs its files as they are, or the list of its snapshot cannot be read.

    Args:
        entry: the job's script, which comes first.
    """
    tree = _tree(job_dir)
    if tree is None:
        return None
    names = {path: _name(path, tree.roots) for path in tree.files}
    script = os.path.realpath(entry)
    paths = sorted(names, key=lambda path: (path != script, names[path].count("/"), names[path]))
    files = [(path, names[path], tree.files[path].num_bytes) for path in paths[:MOST_FILES]]
    return CodeList(tree.roots, sum(file.num_bytes for file in tree.files.values()), len(paths), files)


def read_code_text(job_dir: Path, path: str) -> str:
    """Return the text of one file of the job's code snapshot, as submitted. Raises NotShown."""
    tree = _tree(job_dir)
    file = None if tree is None else tree.files.get(path)
    if file is None:
        raise NotShown(f"{path} is not in the snapshot of this job; choose a file of its list")
    if file.num_bytes > MOST_SHOWN_BYTES:
        raise NotShown(
            f"{path} has {file.num_bytes} bytes, and the page shows files up to {MOST_SHOWN_BYTES}"
        )
    try:
        return object_path(job_dir.parent.parent, file.digest).read_bytes().decode()
    except UnicodeDecodeError:
        raise NotShown(f"{path} is not a text in UTF-8; look at the file itself") from None
    except OSError as error:
        raise NotShown(f"the copy of {path} cannot be read ({error.strerror}); look at the file") from None


def _tree(job_dir: Path) -> CodeTree | None:
    try:
        return decode_tree(job_tree_path(job_dir).read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _name(path: str, roots: tuple[str, ...]) -> str:
    root = next((root for root in roots if path.startswith(root.rstrip("/") + "/")), "")
    return path.removeprefix(root).lstrip("/") if root else path
