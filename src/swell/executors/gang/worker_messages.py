"""Messages between the director of a run and the hosts of its workers, each about one worker.

Plain values, so that any race can be a test.
"""

from __future__ import annotations

import signal

import msgspec

from swell.model.event import AnyEvent
from swell.wire.messages import FromAgent, FromWorker

#: To a worker, and to all that it has started.
KILL = int(signal.SIGKILL)


class HostMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A message between the controller and a host, about one run."""


def trial_run(job_id: str) -> str:
    """How the trial run of a job is called."""
    return f"trial:{job_id}"


class StartWorker(HostMessage, frozen=True, kw_only=True):
    """Fork a worker that sees these devices of the host."""

    run: str
    worker: int
    devices: tuple[str, ...]
    environ: dict[str, str]
    entry: str | None = None  #: instead of the job's script, without its arguments
    is_first: bool = True  #: the run has no other worker on any host


class TellWorker(HostMessage, frozen=True, kw_only=True):
    """Say this to a worker; lost without notice if the worker is going."""

    run: str
    worker: int
    message: FromAgent


class SignalWorker(HostMessage, frozen=True, kw_only=True):
    """SIGKILL goes to everything that the worker started, too. No effect on one that is gone."""

    run: str
    worker: int
    signal: int


WorkerOrder = StartWorker | TellWorker | SignalWorker
#: What a director wants done: a host is told this, or the daemon.
Effect = WorkerOrder | AnyEvent


class WorkerForked(HostMessage, frozen=True, kw_only=True):
    """The process of the worker was started."""

    run: str
    worker: int
    pid: int  #: as the host's kernel numbers it


class WorkerSaid(HostMessage, frozen=True, kw_only=True):
    """A message of a worker."""

    run: str
    worker: int
    message: FromWorker


class WorkerHalted(HostMessage, frozen=True, kw_only=True):
    """The process of a silent worker was stopped by a signal, or (not `is_stopped`) goes on."""

    run: str
    worker: int
    is_stopped: bool


class WorkerExited(HostMessage, frozen=True, kw_only=True):
    """The process is gone, with all that it had started: its devices are free."""

    run: str
    worker: int
    status: int  #: exit code, minus a signal, or one of `executors.exit_status`
    log_tail: str  #: the end of its output, or why there was no process; empty if it ended well


OfWorker = WorkerForked | WorkerSaid | WorkerHalted | WorkerExited
