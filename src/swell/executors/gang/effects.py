"""The effects of a gang's controller: plain values, so that any race can be a test."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import TypedDict

from swell.model.event import AnyEvent
from swell.wire.messages import FromAgent

#: To a worker, and to all that it has started.
KILL = int(signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Spawn:
    """Fork a worker that sees `devices`; answered by `forked` or `exited`."""

    worker: int
    devices: tuple[str, ...]
    environ: dict[str, str] = field(default_factory=dict)
    entry: str | None = None  #: instead of the job's script, without its arguments


@dataclass(frozen=True, slots=True)
class Send:
    """Say this to a worker; lost without notice if the worker is going."""

    worker: int
    message: FromAgent


@dataclass(frozen=True, slots=True)
class Kill:
    """Send the signal; SIGKILL goes to everything the worker started, too."""

    worker: int
    signal: int


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the daemon."""

    event: AnyEvent


Effect = Spawn | Send | Kill | Report


@dataclass(frozen=True, slots=True)
class WorkerExit:
    """How a worker ended."""

    worker: int
    status: int  #: exit code, minus the signal that ended the process, or one of `exit_status`
    log_tail: str  #: the end of its output, or why there is none


class GangEventFields(TypedDict):
    """What every event of a gang begins with."""

    job_id: str
    generation: int
    at_s: float
