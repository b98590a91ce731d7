"""Imperative: something to do. Idempotent per `(job_id, generation)`."""

from __future__ import annotations

import msgspec

from swell.model.job import JobSpec
from swell.model.target import Target


class Command(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An instruction to the world; idempotent per job and generation."""


class ProfileJob(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Run the job for seconds, learn its curve; answered by `JobProfiled` or `ProfilingFailed`.

    The answer carries the `attempt`.
    """

    job_id: str
    spec: JobSpec
    sizes: tuple[int, ...]  #: worker counts the curve is wanted for
    device_kind: str
    attempt: int = 0  #: trial runs of this job that were lost before this one
    avoid: tuple[str, ...] = ()  #: devices that get no more work


class LaunchGang(Command, frozen=True, kw_only=True):
    """Start workers, from the job's latest checkpoint if it has one.

    Answered by `GangStarted` or `GangEnded`.
    """

    job_id: str
    generation: int
    target: Target
    spec: JobSpec
    total_steps: int | None  #: None: the script ends by itself
    max_local_batch: int | None = None  #: samples that fit on a device at once, as far as is known
    done_steps: int = 0  #: that a checkpoint should have; 0: the job begins
    known_findings: tuple[str, ...] = ()  #: names of those about its script that are known or accepted
    verified_steps: int | None = None  #: of the checkpoint that is to be kept, where the job rolls back
    rolls_back: bool = False  #: begin there, and not at the latest one


class Reconfigure(Command, frozen=True, kw_only=True):
    """Make the gang what `target` says: workers on a device that stays, stay.

    Answered by `GangResized`, `ResizeFailed`, `WorkersLost` or `GangEnded`. A later generation
    supersedes an earlier one that is still under way. Where the batch alone is another one, the members
    stay the same; only jobs whose batch is open (`JobSpec.max_batch`) are asked for that.
    """

    job_id: str
    generation: int
    target: Target


class SuspendGang(Command, frozen=True, kw_only=True):
    """Save a checkpoint and leave. Answered by `GangSuspended`, `SuspendFailed` or `GangEnded`.

    The generation is a new one; answers carry it.
    """

    job_id: str
    generation: int


class StopGang(Command, frozen=True, kw_only=True):
    """End the processes, those of a trial run too, and save nothing. Answered by `GangEnded`."""

    job_id: str
    generation: int


class WakeAt(Command, frozen=True, kw_only=True):
    """Send `Woke` at this time; only the latest request counts."""

    at_s: float


#: About the gang of one job.
GangCommand = LaunchGang | Reconfigure | SuspendGang | StopGang
AnyCommand = ProfileJob | LaunchGang | Reconfigure | SuspendGang | StopGang | WakeAt
