"""The tree from which a job's workers take their code: files of its snapshot, and links to all else.

`jobs/ID/code` looks like the file system's root: what the snapshot has is a copy at its own path below it,
and other files of the same folders are links to the originals. So a path of the code, relative to its own
file, leads where it always led, on machines that have the originals. The first host that needs the tree makes
it, for all of them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from swell.model.code import CodeFile, CodeTree, decode_tree, is_within, job_tree_path, object_path, tree_path
from swell.model.job import JobSpec

FOLDER = "code"
#: What is not whole yet is called so.
PARTIAL = f".{FOLDER}.partial-"
#: So many folders above those that were looked through have links too: scripts look into `../data`.
NUM_LEVELS_ABOVE = 3
#: A folder above with more entries is no folder of a project.
MAX_ENTRIES_ABOVE = 1000
UNLINKED = frozenset({"__pycache__"})


def place_code(storage: Path, job_dir: Path, spec: JobSpec) -> CodeTree | None:
    """Make the job's tree with links to the originals, if it is to have one and has none.

    Several hosts may do so at the same time: the first one that has it whole gives it its name.

    Returns:
        The manifest of its snapshot; None: there is none, or it is gone and was not needed.

    Raises:
        ValueError: the snapshot is not there any more, or is damaged.
        OSError: it cannot be written.
    """
    if not spec.code:
        return None
    code, manifest = job_dir / FOLDER, tree_path(storage, spec.code)
    tree = decode_tree(manifest.read_bytes()) if manifest.exists() else None
    if code.is_dir():
        return tree
    if tree is None:
        raise ValueError(f"snapshot {spec.code[:12]} of its code is gone from {storage}; submit it again")
    with suppress(FileExistsError):  # the daemon has linked it, perhaps at this very moment
        os.link(manifest, job_tree_path(job_dir))
    partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=job_dir))
    try:
        _fill(partial, tree, storage)
        _link_originals(partial, tree)
        partial.rename(code)
    except OSError:
        if not code.is_dir():
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return tree


def _fill(partial: Path, tree: CodeTree, storage: Path) -> None:
    children = tree.children()
    for folder in children:
        place_in(partial, folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    for path, file in tree.files.items():
        _copy(object_path(storage, file.digest), place_in(partial, path), file)
    for path, target in tree.links.items():
        place_in(partial, path).symlink_to(target)


def _link_originals(partial: Path, tree: CodeTree) -> None:
    children = tree.children()
    for root in tree.roots:
        for folder in (folder for folder in children if is_within(folder, root)):
            _link(partial, folder, _names(folder))
        for above in list(Path(root).parents)[:-1][:NUM_LEVELS_ABOVE]:
            if len(names := _names(str(above))) <= MAX_ENTRIES_ABOVE:
                _link(partial, str(above), names)


def _names(folder: str) -> list[str]:
    """Empty of a folder that is gone by now, or may not be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _link(partial: Path, folder: str, names: list[str]) -> None:
    """Link the entries of a folder that the snapshot does not have."""
    for name in names:
        link = place_in(partial, os.path.join(folder, name))
        if name not in UNLINKED and not os.path.lexists(link):
            link.symlink_to(os.path.join(folder, name))


def place_in(code: Path, path: str) -> Path:
    """Return where a path of the machine lies in the tree `code`."""
    return code / path.lstrip("/")


def _copy(kept: Path, to: Path, file: CodeFile) -> None:
    """A copy that the job may change: with a link to what is kept, it would change other jobs' code."""
    try:
        content = kept.read_bytes()
    except FileNotFoundError:
        content = b""
    if hashlib.sha256(content).hexdigest() != file.digest:
        raise ValueError(f"{kept}, a part of the snapshot of its code, is gone or damaged; submit it again")
    descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700 if file.is_executable else 0o600)
    with os.fdopen(descriptor, "wb") as copy:
        copy.write(content)
