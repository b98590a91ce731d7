"""Checkpoints on the disk of a host that begins a term: the controller may lack one that was saved before."""

from __future__ import annotations

import os
from pathlib import Path

from swell.executors.hosts.file_messages import HeldCheckpoint
from swell.executors.local.files.places import CHECKPOINTS
from swell.wire.checkpoint_files import checkpoints_in

#: Of so many jobs, those whose folders changed last.
MAX_HELD = 1000


def held_checkpoints(state_dir: Path) -> tuple[HeldCheckpoint, ...]:
    """The newest of each job. What cannot be read is left out: it could not be sent either."""
    return tuple(held for folder in _folders(state_dir / "jobs") if (held := _newest(folder)) is not None)


def _folders(jobs: Path) -> list[Path]:
    try:
        with os.scandir(jobs) as entries:
            changed = sorted((entry.stat().st_mtime, entry.path) for entry in entries)
    except OSError:
        return []
    return [Path(path) for _, path in changed[-MAX_HELD:]]


def _newest(folder: Path) -> HeldCheckpoint | None:
    try:
        _, path = next(iter(checkpoints_in(folder / CHECKPOINTS)))
        num_bytes = path.stat().st_size
    except (OSError, StopIteration):
        return None
    return HeldCheckpoint(job_id=folder.name, name=path.name, num_bytes=num_bytes)
