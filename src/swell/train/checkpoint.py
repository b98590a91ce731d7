"""The state on disk: complete or not there at all.

A checkpoint's name carries the steps and the SHA-256 of its content, so that one rename makes it whole,
and a damaged one is known before it is read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from swell.train.codec import EncodeError
from swell.train.state import TrainState

#: A new gang has nothing to fall back on: the first checkpoint comes as early.
FIRST_S = 5.0
#: Between two checkpoints, in times of what one takes: they take a tenth of the training at most.
REST_PER_SAVE = 10.0

#: The disk is full, the user's share of it is used up, or a file may not grow.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_NAME = re.compile(r"step-(\d{12})\.([0-9a-f]{64})\.pt")
_DRAFT = re.compile(r"\.draft-(\d+)-.*")  # the pid of who writes it


class SaveError(OSError):
    """No checkpoint was written; the folder is as it was."""


class Checkpoints:
    """The newest few checkpoints of one job, in one folder."""

    def __init__(
        self, folder: Path, num_kept: int, interval_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.folder = folder
        self.num_kept = num_kept
        self.interval_s = interval_s
        self._clock = clock
        self._due_s: float | None = None

    def is_due(self) -> bool:
        """To be asked after each step: early after the first one, then every `interval_s` or less often."""
        now_s = self._clock()
        if self._due_s is None:
            self._due_s = now_s + min(self.interval_s, FIRST_S)
        return now_s >= self._due_s

    def save(self, state: TrainState) -> Path:
        """Write the state. It is safe on disk, or not there, when this returns.

        A state with a parameter that is no number is not written as long as there is another to go on from:
        that one is returned. So it cannot push the last good one out.

        Raises:
            SaveError: the disk is full, the folder cannot be written, or an object cannot be saved.
        """
        begun_s = self._clock()
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._remove_left_drafts()
            path = self._kept_instead_of(state) or self._write(state)
        except (OSError, RuntimeError, EncodeError) as error:  # torch.save says RuntimeError of a full disk
            reason = _reason(error)
            raise SaveError(f"no checkpoint at step {state.steps} in {self.folder}: {reason}") from error
        finally:
            ended_s = self._clock()
            self._due_s = ended_s + max(self.interval_s, REST_PER_SAVE * (ended_s - begun_s))
        for _, old in self._found()[self.num_kept :]:
            old.unlink(missing_ok=True)
        return path

    def _kept_instead_of(self, state: TrainState) -> Path | None:
        found = self._found()
        return found[0][1] if found and not state.is_finite() else None

    def load_newest(self, state: TrainState) -> bool:
        """Take over the newest valid checkpoint; False if there is none. A damaged one is warned of."""
        for digest, path in self._found():
            with path.open("rb") as file:
                is_whole = hashlib.file_digest(file, "sha256").hexdigest() == digest
            if not is_whole:
                warnings.warn(f"checkpoint {path} is damaged; the one before it is used", stacklevel=2)
                continue
            content = torch.load(path, map_location="cpu", weights_only=True)
            state.load(content["skeleton"], content["tensors"])
            return True
        return False

    def _found(self) -> list[tuple[str, Path]]:
        """(digest, path) of what lies there, newest first."""
        if not self.folder.is_dir():
            return []
        named = [(match, path) for path in self.folder.iterdir() if (match := _NAME.fullmatch(path.name))]
        named.sort(key=lambda pair: int(pair[0][1]), reverse=True)
        return [(match[2], path) for match, path in named]

    def _remove_left_drafts(self) -> None:
        """Those of processes that were killed while they wrote."""
        for path in self.folder.glob(".draft-*"):
            match = _DRAFT.fullmatch(path.name)
            if match is None or not _is_other_process(int(match[1])):
                path.unlink(missing_ok=True)

    def _write(self, state: TrainState) -> Path:
        skeleton, tensors = state.encode()
        handle, draft = tempfile.mkstemp(prefix=f".draft-{os.getpid()}-", dir=self.folder)
        try:
            with os.fdopen(handle, "w+b") as file:
                torch.save({"skeleton": skeleton, "tensors": tensors}, file)
                file.flush()
                os.fsync(file.fileno())
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            path = self.folder / f"step-{state.steps:012d}.{digest}.pt"
            os.rename(draft, path)
        except BaseException:
            os.unlink(draft)
            raise
        self._sync_folder()
        return path

    def _sync_folder(self) -> None:
        handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _reason(error: Exception) -> str:
    """In words that name a remedy. torch.save hides that the disk is full behind an error of its own."""
    met = error.__context__ if isinstance(error, RuntimeError) else error
    if isinstance(met, OSError) and met.errno in NO_ROOM:
        return f"{met.strerror}; make room there"
    return str(error)


def steps_in(path: Path) -> int:
    """After how many steps the state of this checkpoint was."""
    match = _NAME.fullmatch(path.name)
    assert match is not None  # noqa: S101 - whoever asks has it from `save`
    return int(match[1])


def _is_other_process(pid: int) -> bool:
    """Whether a process other than this one has this number: it may be about to rename its draft."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's, and alive
    return True
