"""How an agent treats the workers of its machine: what it is started with, and keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from swell.executors.gang.timeouts import Timeouts
from swell.wire.messages import Welcome

_WELCOME = {known.name: known.default for known in msgspec.structs.fields(Welcome)}


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What every worker does from time to time; a part of its `Welcome`."""

    checkpoint_interval_s: float = 0.0  #: 0: chosen for each gang
    keep_checkpoints: int = _WELCOME["keep_checkpoints"]
    heartbeat_s: float = _WELCOME["heartbeat_s"]


@dataclass(frozen=True, slots=True)
class LogLimits:
    """How much of what workers print is kept; 0: all."""

    log_bytes: int = 64 << 20  #: of each worker
    job_log_bytes: int = 1 << 30  #: of all workers of a job


@dataclass(frozen=True, slots=True)
class GangSettings:
    timeouts: Timeouts = field(default_factory=Timeouts)
    worker_settings: WorkerSettings = field(default_factory=WorkerSettings)
    trial_s: float = 120.0  #: a trial run of a script, and each calibration, take no longer
    logs: LogLimits = field(default_factory=LogLimits)
