"""What was measured once is kept: profiles by code and request, times of groups by kind of device."""

from __future__ import annotations

import hashlib
import logging
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import msgspec

from swell.executors.gang.trial_plan import GroupTimes, local_batches
from swell.model.code import decode_tree, tree_path
from swell.model.command import ProfileJob
from swell.model.job import Profile
from swell.script_facts import BetweenSteps
from swell.wire.whole_files import write_whole

_Kept = TypeVar("_Kept")

log = logging.getLogger("swell.agent")


class ProfileStore:
    """Files in a state folder. One that cannot be read is as good as none: it is measured again."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._folder = state_dir / "profiles"
        self._times: dict[str, GroupTimes] = {}  #: by kind of device
        self._path_of: dict[str, Path] = {}  #: by job, as when its trial run was asked for

    def profile(self, command: ProfileJob) -> Profile | None:
        """Stored profile of a job with the same code, arguments, variables, batch and kind of device, if any.

        It must tell of each size of the command. One that does not tell what follows an epoch will do for a
        job in which no epoch ends.
        """
        path = self.path(command)
        if path is None:
            return None
        self._path_of[command.job_id] = path
        profile = _read(path, Profile)
        if profile is None or not _covers(profile, command):
            return None
        known_s = self.times(command.device_kind).extra_s(profile.grad_bytes)
        return msgspec.structs.replace(profile, crossing_s=known_s) if known_s else profile

    def keep_profile(self, command: ProfileJob, profile: Profile) -> None:
        """Store it for later jobs, with what is known of other sizes. No effect if code cannot be read."""
        if (path := self.path(command)) is not None:
            known = _read(path, Profile)
            _write(path, _with_known(profile, known) if known else profile)

    def correct(self, job_id: str, between: BetweenSteps | None = None, end_s: float | None = None) -> None:
        """What a job's run has shown of the time without steps, for later jobs of its script.

        No effect if its trial run was asked for before this process began.

        Args:
            between: what follows an epoch. A trial run that has seen it is believed; None: nothing is known.
            end_s: what follows the last step; the mean of this and what was known is kept; None: not known.
        """
        path = self._path_of.get(job_id)
        known = None if path is None else _read(path, Profile)
        if known is None or path is None:
            return
        new = known
        if between is not None and (known.between is None or not known.between.num_epochs):
            new = msgspec.structs.replace(new, between=between)
        if end_s is not None:
            mean_s = (known.end_s + end_s) / 2 if known.end_s else end_s
            new = msgspec.structs.replace(new, end_s=mean_s)
        if new != known:
            _write(path, new)

    def times(self, kind: str) -> GroupTimes:
        """Times of groups on a kind of device: always the same value, to which trial runs add."""
        if kind not in self._times:
            self._times[kind] = _read(self._times_path(kind), GroupTimes) or GroupTimes()
        return self._times[kind]

    def keep_times(self, kind: str) -> None:
        """Store the times of groups on a kind of device."""
        _write(self._times_path(kind), self.times(kind))

    def _times_path(self, kind: str) -> Path:
        return self._folder / f"groups-{hashlib.sha256(kind.encode()).hexdigest()[:16]}.json"

    def path(self, command: ProfileJob) -> Path | None:
        """Where the profile is kept of all jobs of which the same is measured.

        None if the code's content cannot be known: then nothing is kept.

        So it is of a job that runs its files as they are: what they import may be another thing each time.
        """
        spec = command.spec
        if not spec.code:
            return None
        try:
            sources = _sources(tree_path(self._state_dir, spec.code))
        except OSError:
            return None
        function = spec.entry.rpartition(":")[2]
        request = (
            "" if "/" in function else function,
            spec.args,
            spec.env,
            spec.python,
            *((spec.image,) if spec.image else ()),
            *((spec.uv,) if spec.uv else ()),
            spec.global_batch,
            *((spec.least_batch, spec.max_batch, spec.batch_per_worker) if spec.may_change_batch else ()),
            # One of fewer workers computes larger parts of an open batch, which are measured as well.
            *((spec.min_workers,) if spec.may_change_batch and spec.min_workers > 1 else ()),
            spec.devices_per_worker,
            *((spec.processes_per_worker,) if spec.processes_per_worker > 1 else ()),
            command.device_kind,
        )
        digest = hashlib.sha256(sources + msgspec.json.encode(request)).hexdigest()
        return self._folder / f"{digest}.json"


@lru_cache(maxsize=1000)
def _sources(tree: Path) -> bytes:
    """Digest of a snapshot's sources. It is read once, when a job has just been submitted: later the
    storage may not answer.

    Raises OSError: it is gone, perhaps.
    """
    return decode_tree(tree.read_bytes()).sources_digest.encode()


def _with_known(profile: Profile, known: Profile) -> Profile:
    """Add what an earlier trial run has measured at other sizes, for jobs that have these."""
    profile = msgspec.structs.replace(profile, end_s=known.end_s)
    if profile.batches is not None:  # each of an open batch belongs to the sizes of its run
        return profile
    sizes = profile.allreduce_sizes, known.allreduce_sizes
    return msgspec.structs.replace(
        profile,
        compute_s=known.compute_s | profile.compute_s,
        allreduce_s=known.allreduce_s | profile.allreduce_s,
        allreduce_sizes=None if None in sizes else tuple(sorted({*(sizes[0] or ()), *(sizes[1] or ())})),
        group_step_s=known.group_step_s | profile.group_step_s,
        findings=known.findings if profile.findings is None else profile.findings,
    )


def _covers(profile: Profile, command: ProfileJob) -> bool:
    """Whether another trial run would find nothing new."""
    spec, sizes = command.spec, command.sizes
    if profile.between is None and spec.steps_to_epoch_end(profile.samples_per_epoch) is not None:
        return False
    if spec.hold_after_trial and max(command.sizes) > 1 and not profile.group_step_s:
        return False
    if profile.findings is None and max(command.sizes) > 1:
        return False
    if not profile.allreduce_s.keys() >= set(command.sizes):
        return False
    if profile.num_shards is not None and profile.num_shards < min(sizes):
        return False
    if spec.max_batch is not None:  # not all of a range is measured where steps are long
        return True
    batches = local_batches(spec, sizes, profile.max_local_batch)
    return profile.compute_s.keys() >= set(batches)


def _read(path: Path, kind: type[_Kept]) -> _Kept | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None


def _write(path: Path, value: object) -> None:
    """A reader sees the old file or the new, never half of one. Without room it will be measured again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, msgspec.json.encode(value))
    except OSError as error:
        log.warning("cannot keep what was measured in %s: %s", path, error)
