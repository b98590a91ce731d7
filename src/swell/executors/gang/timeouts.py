"""How long things may take before a worker is called dead, and how the exit of a worker is told."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from swell.executors.exit_status import HOST_LOST, NOT_STARTED, OUT_OF_MEMORY, OVER_MEMORY, UNFIT
from swell.executors.gang.gang_record import Member, State
from swell.model.failure import LOG_ENDS
from swell.model.lengths import span
from swell.wire.environ import EXIT_STOPPED

#: A joiner that reads a stream up to where the others are has so many times `ready_s`.
READING_SHARE = 10.0


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits of a gang, all in seconds."""

    ready_s: float = 60.0  #: from the fork of a worker to its Ready; what its zygote imports may take longer
    silence_s: float = 60.0  #: between two signs of life, once connected; a call into C may block them
    standstill_s: float = 3.0  #: the same where the process was stopped, so that none will come
    notice_s: float = 60.0  #: for those who wait in a step to notice that one of the group is gone
    boundary_s: float = 120.0  #: from an order to the end of the step that is under way
    stuck_s: float = 600.0  #: for one for whom others wait: rank 0 may evaluate for minutes
    stop_s: float = 3.0  #: from SIGTERM to SIGKILL
    finish_s: float = 600.0  #: for the last lines of a script: evaluating, writing the final model
    leave_s: float = 10.0  #: from Left to the exit
    step_end_s: float = 5.0  #: until SIGTERM where no step of a script ends; the first word is STOP_AT_STEP
    restart_s: float = 10.0  #: from SIGTERM to SIGKILL where the script writes its own checkpoint


def overdue(member: Member, script: str, now_s: float, timeouts: Timeouts) -> tuple[str, bool] | None:
    """Return why a worker's time is up, and whether its script is at fault; None: it is not up."""
    is_on_its_way = member.state is State.STARTING and member.pid is not None
    if is_on_its_way and now_s - member.since_s > _ready_s(member, timeouts):
        return never_called(script, timeouts.ready_s), True
    if why := unresponsive(member, now_s, timeouts):
        return why, False
    if member.left_s is not None and now_s - member.left_s > timeouts.leave_s:
        return f"worker {member.number} did not exit within {span(timeouts.leave_s)} and was killed", False
    return None


def unresponsive(member: Member, now_s: float, timeouts: Timeouts) -> str:
    """Return why a worker is taken for dead that gives no sign of life; empty: it is not."""
    if stands_still(member, now_s, timeouts):
        return f"worker {member.number} was stopped by a signal, and was killed"
    if member.heard_s is not None and now_s - member.heard_s > timeouts.silence_s:
        return f"worker {member.number} gave no sign of life for {span(timeouts.silence_s)} and was killed"
    return ""


def _ready_s(member: Member, timeouts: Timeouts) -> float:
    """A worker that has called it, and reads a stream up to where the others are, is given more time."""
    is_reading = member.heartbeat is not None and member.heartbeat.awaits == "data"
    return timeouts.ready_s * (READING_SHARE if is_reading else 1.0)


def stands_still(member: Member, now_s: float, timeouts: Timeouts) -> bool:
    """Whether it has said nothing for a while, and will not before its process is woken."""
    since_s = member.since_s if member.heard_s is None else member.heard_s
    is_silent = member.pid is not None and now_s - since_s > timeouts.standstill_s
    return is_silent and member.is_stopped


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
