"""The folders of jobs: logs, checkpoints, code."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from pathlib import Path

from swell.model.errors import WrongPhase
from swell.wire.checkpoint_files import newest_whole
from swell.wire.whole_files import sync

log = logging.getLogger("swell.live")

CHECKPOINTS = "checkpoints"

#: What a file system answers that has no hard links, or none to this file.
NO_LINKS = (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)


class JobFolders:
    """All of a platform, in one folder. Making one touches nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def reserve(self, job_id: str) -> bool:
        """Make the folder of a new job. False if it is there: its checkpoints are another job's."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            (self.path / job_id).mkdir(mode=0o700)
        except FileExistsError:
            return False
        return True

    def ids(self) -> list[str]:
        """Ids of the jobs that have a folder, in alphabetical order."""
        if not self.path.is_dir():
            return []
        return sorted(entry.name for entry in os.scandir(self.path) if entry.is_dir(follow_symlinks=False))

    def checkpoints(self, job_id: str) -> Path:
        return self.path / job_id / CHECKPOINTS

    # ------------------------------------------------------------ going on from a checkpoint
    def newest_checkpoint(self, job_id: str) -> Path:
        """The newest that is whole; reads it. Raises WrongPhase if there is none."""
        folder = self.checkpoints(job_id)
        found = newest_whole(folder)
        if found is None:
            raise WrongPhase(
                f"job {job_id!r} has no sound checkpoint in {folder}; start it from the beginning with "
                f"`swell retry {job_id}`"
            )
        return found

    def hand_over(self, checkpoint: Path, to: str) -> None:
        """Give the checkpoint to another job too: a hard link, or a copy where there are no links."""
        folder = self.checkpoints(to)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = folder / checkpoint.name
        try:
            os.link(checkpoint, target)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            shutil.copyfile(checkpoint, target)
        sync(folder)

    def discard(self, job_id: str) -> None:
        """Remove what `reserve` and `hand_over` made for a job that never was."""
        folder = self.checkpoints(job_id)
        if folder.is_dir():
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
        (self.path / job_id).rmdir()
