"""Where a state folder keeps the files that go between machines."""

from __future__ import annotations

import re
from pathlib import Path

from swell.executors.hosts.file_messages import CodeContent, CodeManifest, JobCheckpoint, NamedFile
from swell.executors.local.logs.files import job_folder
from swell.model.code import object_path, tree_path
from swell.wire.checkpoint_files import digest_in

CHECKPOINTS = "checkpoints"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def checkpoint_folder(state_dir: Path, job_id: str) -> Path:
    """Raises ValueError if the id cannot name a folder."""
    return job_folder(state_dir, job_id) / CHECKPOINTS


def place_of(state_dir: Path, file: NamedFile) -> Path:
    """Raises ValueError: what another machine has said is no name of such a file."""
    digest_of(file)
    match file:
        case CodeManifest(digest=digest):
            return tree_path(state_dir, digest)
        case CodeContent(digest=digest):
            return object_path(state_dir, digest)
        case JobCheckpoint(job_id=job_id, name=name):
            return checkpoint_folder(state_dir, job_id) / name


def digest_of(file: NamedFile) -> str:
    """SHA-256 of the content. Raises ValueError."""
    digest = _digest_of_checkpoint(file.name) if isinstance(file, JobCheckpoint) else file.digest
    if digest is None or not _DIGEST.fullmatch(digest):
        raise ValueError(f"{shown(file)} is no name of a file that goes between machines")
    return digest


def _digest_of_checkpoint(name: str) -> str | None:
    """None of a path: its last part may be a checkpoint's name, but it leads elsewhere."""
    return None if "/" in name else digest_in(Path(name))


def shown(file: NamedFile) -> str:
    """Return a description of the file, for people."""
    match file:
        case CodeManifest(digest=digest):
            return f"the list of files of code snapshot {digest[:12]}"
        case CodeContent(digest=digest):
            return f"file {digest[:12]} of a code snapshot"
        case JobCheckpoint(job_id=job_id, name=name):
            return f"checkpoint {name} of job {job_id!r}"
