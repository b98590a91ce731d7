"""How an agent treats the workers of its machine: what it is started with, and keeps."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from swell.executors.gang.timeouts import Timeouts
from swell.wire.messages import Welcome

_WELCOME = {known.name: known.default for known in msgspec.structs.fields(Welcome)}


@dataclass(frozen=True, slots=True)
class GangSettings(Timeouts):
    """What all gangs of a platform have in common."""

    trial_s: float = 120.0  #: a trial run of a script, and each calibration, take no longer
    checkpoint_interval_s: float = 0.0  #: 0: chosen for each gang
    keep_checkpoints: int = _WELCOME["keep_checkpoints"]
    heartbeat_s: float = _WELCOME["heartbeat_s"]
    log_bytes: int = 64 << 20  #: of what each worker prints, that are kept; 0: all
    job_log_bytes: int = 1 << 30  #: of what all workers of a job print
