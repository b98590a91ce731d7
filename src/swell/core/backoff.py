"""Failures in a row: how long to wait after one, and when it was one too many."""

from __future__ import annotations

from swell.core.record import JobRecord
from swell.model.job import Elasticity, Phase

#: A job whose gang was lost so often in a row without finishing a step has failed; so has one whose trial
#: run was lost so often in a row.
MAX_SETBACKS = 10
#: Wait so long after the first setback, twice as long after each further one.
FIRST_BACK_OFF_S = 1.0
LONGEST_BACK_OFF_S = 60.0
#: For `str.translate`.
NO_DIGITS = dict.fromkeys(map(ord, "0123456789"))


def is_last_loss(record: JobRecord) -> bool:
    """Whether the job fails by one more loss of its gang, or of its trial run."""
    return record.num_setbacks + 1 >= MAX_SETBACKS


def back_off(record: JobRecord, now_s: float) -> None:
    """The gang was lost, or the trial run."""
    record.held_back_until_s = now_s + _delay_s(record.num_setbacks)
    record.num_setbacks += 1


def go_on(record: JobRecord) -> None:
    """What had gone wrong before is over: it needs no explanation any more."""
    record.setback = ""


def is_content(record: JobRecord, at_s: float) -> bool:
    """It trains, and a change that failed could have been asked for again and was not."""
    is_training = record.phase is Phase.RUNNING and not record.is_changing and not record.is_broken
    return is_training and at_s > record.held_back_until_s


def leave_alone(record: JobRecord, now_s: float, message: str) -> str:
    """The gang trains on, but could not be changed; that it makes steps does not mean that it can be now.

    Returns the cause as its story is to tell it: in full only where that is news.
    """
    is_known = record.num_failed_changes > 0 and _is_same_cause(record.setback, message)
    record.setback = message
    record.held_back_until_s = now_s + _delay_s(record.num_failed_changes)
    record.num_failed_changes += 1
    return "for the same reason as before" if is_known else message


def _is_same_cause(one: str, other: str) -> bool:
    """The step at which it happened may be another."""
    return one.translate(NO_DIGITS) == other.translate(NO_DIGITS)


def _delay_s(num_failures: int) -> float:
    """Until the next try, after so many failures in a row before this one."""
    return min(LONGEST_BACK_OFF_S, FIRST_BACK_OFF_S * 2.0 ** min(num_failures, 10))


def has_lasted(record: JobRecord, at_s: float) -> bool:
    """A restart job reports no steps; that its gang was up for a while has to do for progress."""
    is_silent = record.spec.elasticity is Elasticity.RESTART
    return is_silent and not record.is_forming and at_s - record.launched_s > LONGEST_BACK_OFF_S
