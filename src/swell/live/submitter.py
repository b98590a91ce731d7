"""How a request becomes a job: a unique id, one job for each key, an answer when the journal has it."""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from swell.executors.local.accounts.client import make_work
from swell.executors.storage import CHECKPOINTS, WORK, work_folder
from swell.live.head_queue import HeadQueue
from swell.model.errors import KeyInUse, Unavailable, WrongPhase
from swell.model.event import JobSubmitted
from swell.model.job import KEY_OF, Elasticity, JobSpec, Origin
from swell.model.view import SubmitResult
from swell.store.journal import SqlJournal
from swell.wire.checkpoint_files import checkpoints_in, copy_checkpoint, is_whole, steps_in
from swell.wire.job_inputs import NO_INPUTS, JobInputs, read_inputs

#: Digits and small letters without those that look alike (0 and o, 1 and l): five bits each.
ALPHABET = "23456789abcdefghijkmnpqrstuvwxyz"
#: 40 bits: with a million jobs one id in a million is taken, and another one is tried.
NUM_RANDOM = 8


#: Of a job and the submissions that are not yet in the journal: the job as it is to be.
Checked = Callable[[JobSpec, Collection["PendingSubmission"]], JobSpec]


class JobFiles:
    """The folders of all jobs of a platform: logs, checkpoints, code. Making one touches nothing."""

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
        return work_folder(self.path / job_id) / CHECKPOINTS

    # ------------------------------------------------------------ going on from an earlier job
    def inputs(self, job_id: str, spec: JobSpec) -> JobInputs:
        """Return those of a job with this request. Raises WrongPhase: they are gone; OSError."""
        try:
            return read_inputs(self.path / job_id) if spec.secrets or spec.uv else NO_INPUTS
        except ValueError as error:
            raise WrongPhase(f"job {job_id!r} cannot be submitted again: {error}") from error

    def hand_over(self, job_id: str, to: str, run_as: str = "") -> Path:
        """Copy the newest checkpoint that is whole for another job: the file of a link would be of both.

        Raises WrongPhase: there is none; OSError, AccountRefused: it cannot be given to the user `run_as`.
        """
        folder, own = self.checkpoints(job_id), self.path / to / (WORK if run_as else "") / CHECKPOINTS
        for digest, path in checkpoints_in(folder):
            if is_whole(path, digest):
                own.mkdir(mode=0o700, parents=True, exist_ok=True)
                copy = copy_checkpoint(path, own)
                if run_as:  # nothing is written where its user could put a link
                    make_work(self.path / to, run_as)
                return copy
        raise WrongPhase(
            f"job {job_id!r} has no sound checkpoint in {folder}; start it from the beginning with "
            f"`swell retry {job_id}`"
        )

    def discard(self, job_id: str) -> None:
        """Remove what `reserve` and `hand_over` made for a job that never was."""
        shutil.rmtree(self.path / job_id)


@dataclass(frozen=True, slots=True)
class PendingSubmission:
    """A submission that is not yet in the journal."""

    job_id: str
    origin: Origin
    spec: JobSpec
    answer: Future[SubmitResult] = field(default_factory=Future)


class Submitter:
    """Thread-safe."""

    def __init__(
        self, inbox: HeadQueue, now_s: Callable[[], float], submissions: SqlJournal, folders: JobFiles
    ) -> None:
        self._inbox, self._now_s, self._submissions, self._folders = inbox, now_s, submissions, folders
        self._lock = threading.Lock()
        self._ids: dict[str, PendingSubmission] = {}  #: given, and not yet in the journal
        self._keys: dict[str, PendingSubmission] = {}  #: the same, by key

    def submit(
        self,
        spec: JobSpec,
        origin: Origin,
        checked: Checked = lambda spec, _: spec,
        inputs: JobInputs = NO_INPUTS,
    ) -> SubmitResult:
        """Returns once the journal has the job, and the board shows it.

        Args:
            checked: the job as it is to be, or InvalidJob. Not asked about one that is there already: the
                platform may be another one than at its submission.
            inputs: what it comes with; a job that is submitted again has those of the earlier one.

        Raises:
            InvalidJob: a new job cannot be as it is.
            KeyInUse: the key was used for another request.
            WrongPhase: the job that it continues has no sound checkpoint, or the earlier one no inputs.
            Unavailable: the head, or the disk, did not take it.
        """
        with self._lock:
            earlier = self._earlier(origin)
            if earlier is None:
                spec = checked(spec, self._ids.values())
                mine = self._reserve_id(spec, origin)
        if earlier is not None:
            return _again(earlier)
        try:
            origin = self._equip(mine, spec, inputs)
            event = JobSubmitted(at_s=self._now_s(), job_id=mine.job_id, spec=spec, origin=origin)
            if not self._inbox.put_and_wait(event, f"job {mine.job_id!r} may or may not have been submitted"):
                self._folders.discard(mine.job_id)
                raise Unavailable(f"the scheduler knows a job {mine.job_id!r} already; submit again")
            result = _result(mine.job_id, origin, is_new=True)
        except BaseException as error:
            mine.answer.set_exception(error)
            raise
        else:
            mine.answer.set_result(result)
            return result
        finally:
            with self._lock:
                self._ids.pop(mine.job_id, None)
                self._keys.pop(origin.key, None)

    # ------------------------------------------------------------ under the lock
    def _earlier(self, origin: Origin) -> JobSubmitted | PendingSubmission | None:
        """The submission that came first with this key."""
        if not origin.key:
            return None
        earlier = self._keys.get(origin.key) or self._submissions.submission_of_key(origin.key)
        if earlier is not None and earlier.origin.fingerprint != origin.fingerprint:
            own = origin.key.rpartition(KEY_OF)[2]
            raise KeyInUse(
                f"the idempotency key {own!r} was used before, for job {earlier.job_id!r}, with another "
                "request; give each request a key of its own"
            )
        return earlier

    def _reserve_id(self, spec: JobSpec, origin: Origin) -> PendingSubmission:
        mine = PendingSubmission(self._new_id(spec.name), origin, spec)
        self._ids[mine.job_id] = mine
        if origin.key:
            self._keys[origin.key] = mine
        return mine

    def _new_id(self, name: str) -> str:
        """One that no job has had, as far as journal and folders remember. Its folder is there then."""
        while True:
            letters = (ALPHABET[one % len(ALPHABET)] for one in secrets.token_bytes(NUM_RANDOM))
            job_id = f"{name}-{''.join(letters)}"
            if job_id in self._ids or self._submissions.knows(job_id):
                continue
            try:
                if self._folders.reserve(job_id):
                    return job_id
            except OSError as error:
                raise Unavailable(
                    f"no folder can be made for the job in {self._folders.path} ({error.strerror}); "
                    "make room, or make it writable, and submit again"
                ) from error

    # ------------------------------------------------------------ without it
    def _equip(self, mine: PendingSubmission, spec: JobSpec, inputs: JobInputs) -> Origin:
        """Give the new job its inputs, and what it is to go on from; a restart job has that in its own
        folder.
        """
        origin = mine.origin
        try:
            if earlier := origin.continues or origin.retries:
                inputs = self._folders.inputs(earlier, spec)
            inputs.write(self._folders.path / mine.job_id)
            if not origin.continues or spec.elasticity is Elasticity.RESTART:
                return origin
            checkpoint = self._folders.hand_over(origin.continues, mine.job_id, spec.run_as)
        except BaseException as error:
            self._folders.discard(mine.job_id)
            if not isinstance(error, OSError):
                raise
            raise Unavailable(
                f"the files of job {mine.job_id!r} cannot be made ({error}); submit again"
            ) from error
        return msgspec.structs.replace(origin, steps=steps_in(checkpoint))


def _again(earlier: JobSubmitted | PendingSubmission) -> SubmitResult:
    """The answer to a request that was made before."""
    if isinstance(earlier, PendingSubmission):
        return msgspec.structs.replace(earlier.answer.result(), is_new=False)
    return _result(earlier.job_id, earlier.origin, is_new=False)


def _result(job_id: str, origin: Origin, is_new: bool) -> SubmitResult:
    return SubmitResult(id=job_id, is_new=is_new, continues=origin.continues, steps=origin.steps)
