"""How long things may take before a worker is called dead, and how the exit of a worker is told."""

from __future__ import annotations

import signal

from swell.executors.exit_status import HOST_LOST, NOT_STARTED, OUT_OF_MEMORY, OVER_MEMORY, UNFIT
from swell.executors.gang.gang_record import Member, State
from swell.executors.gang.job_context import GangSettings
from swell.model.failure import LOG_ENDS
from swell.model.lengths import span
from swell.wire.environ import EXIT_STOPPED

#: A joiner that reads a stream up to where the others are has so many times `ready_s`.
READING_SHARE = 10.0


def overdue(member: Member, script: str, now_s: float, settings: GangSettings) -> tuple[str, bool] | None:
    """Return why a worker's time is up, and whether its script is at fault; None: it is not up."""
    is_on_its_way = member.state is State.STARTING and member.pid is not None
    if is_on_its_way and now_s - member.since_s > _ready_s(member, settings):
        return never_called(script, settings.ready_s), True
    if why := unresponsive(member, now_s, settings):
        return why, False
    if member.left_s is not None and now_s - member.left_s > settings.leave_s:
        return f"worker {member.number} did not exit within {span(settings.leave_s)} and was killed", False
    return None


def unresponsive(member: Member, now_s: float, settings: GangSettings) -> str:
    """Return why a worker is taken for dead that gives no sign of life; empty: it is not."""
    if member.heard_s is not None and now_s - member.heard_s > settings.silence_s:
        return f"worker {member.number} gave no sign of life for {span(settings.silence_s)} and was killed"
    return ""


def _ready_s(member: Member, settings: GangSettings) -> float:
    """A worker that has called it, and reads a stream up to where the others are, is given more time."""
    is_reading = member.heartbeat is not None and member.heartbeat.awaits == "data"
    return settings.ready_s * (READING_SHARE if is_reading else 1.0)


def never_called(script: str, limit_s: float) -> str:
    return (
        f"script {script} did not call swell.train.elastic within {span(limit_s)}; call it before the "
        "training loop, after only what is needed to build model, optimizer and data, or submit the job with "
        "elasticity 'restart'"
    )


def ended_early(script: str, status: int) -> str:
    return (
        f"script {script} ended with status {status} before it called swell.train.elastic; call it before "
        "the training loop, or submit the job with elasticity 'restart'"
    )


def is_fault_of_script(status: int) -> bool:
    """Whether its script, or what its job asks for, has ended a process, and not a signal."""
    return status == UNFIT or (status >= 0 and status != EXIT_STOPPED)


def describe_exit(member: Member, status: int, log_tail: str) -> str:
    """How a worker ended, in the words of its own traceback where there is one."""
    if member.failure:
        return member.failure
    ends = {
        NOT_STARTED: f"could not be started, through no fault of the script: {log_tail}",
        UNFIT: f"could not be started: {log_tail}",
        HOST_LOST: f"was lost: {log_tail}",
        OVER_MEMORY: f"was killed: the processes of its job went beyond their {log_tail}",
        OUT_OF_MEMORY: f"was killed {log_tail}",
    }
    if status in ends:
        return f"worker {member.number} {ends[status]}"
    if status < 0:
        return f"worker {member.number} was killed by {signal_name(-status)}"
    text = f"worker {member.number} exited with status {status}"
    return f"{text}; {LOG_ENDS}\n{log_tail}" if log_tail else text


def signal_name(number: int) -> str:
    """Real-time signals have no names but the first and the last."""
    known = {known.value: known.name for known in signal.Signals}
    return known.get(number, f"signal {number}")


def half(num_samples: int, bound: int | None) -> int:
    """The new bound on a pass, after memory ran out with so many samples; never above the one there was.

    Several workers that run out in the same step halve it once.
    """
    halved = max(1, num_samples // 2)
    return halved if bound is None else min(halved, bound)
