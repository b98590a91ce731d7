"""How an agent treats the workers of its machine: what it is started with, and keeps."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from swell.wire.messages import Welcome

_WELCOME = {known.name: known.default for known in msgspec.structs.fields(Welcome)}


@dataclass(frozen=True, slots=True)
class GangSettings:
    """What all gangs of a platform have in common. Time limits are in seconds."""

    ready_s: float = 60.0  #: from the fork of a worker to its Ready; what its zygote imports may take longer
    silence_s: float = 60.0  #: between two signs of life, once connected; a call into C may block them
    standstill_s: float = 3.0  #: until the host kills a process that was stopped by a signal
    notice_s: float = 60.0  #: for those who wait in a step to notice that one of the group is gone
    boundary_s: float = 120.0  #: from an order to the end of the step that is under way
    stuck_s: float = 600.0  #: for one for whom others wait: rank 0 may evaluate for minutes
    stop_s: float = 3.0  #: from SIGTERM to SIGKILL
    finish_s: float = 600.0  #: for the last lines of a script: evaluating, writing the final model
    leave_s: float = 10.0  #: from Left to the exit
    step_end_s: float = 5.0  #: until SIGTERM where no step of a script ends; the first word is STOP_AT_STEP
    restart_s: float = 10.0  #: from SIGTERM to SIGKILL where the script writes its own checkpoint
    trial_s: float = 120.0  #: a trial run of a script, and each calibration, take no longer
    checkpoint_interval_s: float = 0.0  #: 0: chosen for each gang
    keep_checkpoints: int = _WELCOME["keep_checkpoints"]
    heartbeat_s: float = _WELCOME["heartbeat_s"]
    log_bytes: int = 64 << 20  #: of what each worker prints, that are kept; 0: all
    job_log_bytes: int = 1 << 30  #: of what all workers of a job print
