"""The folders of jobs, and what they tell of their jobs should the journal be lost.

`jobs/ID/job.json` holds the submission, `jobs/ID/ended.json` the job as it stood when it ended. Both repeat
what is in the journal and are read by `swell doctor` only. They are not flushed to disk one by one: a power
cut may take the latest, and the journal has those.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from swell.model.coding import decoder, encode
from swell.model.errors import WrongPhase
from swell.model.event import JobSubmitted
from swell.model.view import JobView
from swell.wire.checkpoint_files import newest_whole
from swell.wire.whole_files import sync, write_whole

log = logging.getLogger("swell.live")

SUBMITTED, ENDED, CHECKPOINTS = "job.json", "ended.json", "checkpoints"

#: What a file system answers that has no hard links, or none to this file.
NO_LINKS = (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)

_decode_submitted: Callable[[bytes], JobSubmitted] = decoder(JobSubmitted).decode
_decode_view: Callable[[bytes], JobView] = decoder(JobView).decode


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

    # ------------------------------------------------------------ what is told of a job
    def note_submitted(self, event: JobSubmitted) -> None:
        """Write `job.json`, which recovers the job if the journal is lost."""
        self._write(event.job_id, SUBMITTED, event)

    def note_ended(self, view: JobView) -> None:
        """A folder that its owner has removed is not made again."""
        if (self.path / view.id).is_dir():
            self._write(view.id, ENDED, view)

    def has_note_of_open_job(self, job_id: str) -> bool:
        """Whether the folder has a `job.json`. An `ended.json` is removed: the job is open.

        A start asks this of each open job, so no `Path` is made.
        """
        folder = f"{self.path}/{job_id}"
        with suppress(FileNotFoundError):
            os.unlink(f"{folder}/{ENDED}")
        return os.path.exists(f"{folder}/{SUBMITTED}")

    def submitted(self, job_id: str) -> JobSubmitted | None:
        """None if there is no such file, or it cannot be read."""
        found = self._read(job_id, SUBMITTED, _decode_submitted)
        return found if found is not None and found.job_id == job_id else None

    def ended(self, job_id: str) -> JobView | None:
        """None if the job had not ended, or the file cannot be read."""
        found = self._read(job_id, ENDED, _decode_view)
        return found if found is not None and found.id == job_id else None

    def has_worker_log(self, job_id: str) -> bool:
        """Whether a gang of the job has written anything; its trial run has logs of its own."""
        return any((self.path / job_id).glob("worker-*.log*"))

    def _write(self, job_id: str, name: str, value: object) -> None:
        """All or nothing. A note that cannot be written is logged: the journal has what it says."""
        folder = self.path / job_id
        try:
            if not folder.is_dir():
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(folder / name, encode(value))
        except OSError as error:
            log.warning("cannot write %s (%s); `swell doctor` will miss it", folder / name, error.strerror)

    def _read(self, job_id: str, name: str, decode: Callable[[bytes], Any]) -> Any:
        try:
            return decode((self.path / job_id / name).read_bytes())
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

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
