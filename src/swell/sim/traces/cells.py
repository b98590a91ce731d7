"""What stands in a cell of a trace: numbers, moments, lengths of time, ends of jobs."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from swell.model.job import MOST_PRIORITY, MOST_WEIGHT
from swell.model.names import ANY, is_kind
from swell.sim.loss_curves import parse_loss
from swell.sim.traces.entry import InvalidLine, Status

#: Words for nothing, in lower case.
BLANK = frozenset({"", "-", "none", "null", "nan", "na", "n/a", "unknown"})

#: Larger numbers are no seconds, steps or devices of anything.
LARGEST = 1e15

STATUSES: dict[str, Status] = {
    "completed": "completed",
    "pass": "completed",
    "terminated": "completed",
    "failed": "failed",
    "failedorkilled": "failed",
    "timeout": "failed",
    "node_fail": "failed",
    "boot_fail": "failed",
    "out_of_memory": "failed",
    "deadline": "failed",
    "killed": "killed",
    "cancelled": "killed",
    "preempted": "killed",
    "revoked": "killed",
}
ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", re.ASCII)


def is_blank(cell: str) -> bool:
    return cell.lower() in BLANK


def text(cell: str) -> str:
    return cell


def number(cell: str) -> float:
    """Raises InvalidLine unless it is one, finite and of a size that can be."""
    try:
        value = float(cell)
    except ValueError:
        raise InvalidLine(f"is not a number: {_shown(cell)}") from None
    if not math.isfinite(value):
        raise InvalidLine(f"is not a finite number: {_shown(cell)}")
    if abs(value) > LARGEST:
        raise InvalidLine(f"is larger than anything can be: {_shown(cell)}")
    return value


def is_number(cell: str) -> bool:
    """Whether a cell is a number, however large."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def bound(cell: str) -> float | None:
    """A number; None for infinity, which is how some write that there is no bound."""
    return None if cell.lower() in ("inf", "infinity") else number(cell)


def milliseconds(cell: str) -> float:
    """Seconds."""
    return number(cell) / 1000.0


def minutes(cell: str) -> float:
    """Seconds."""
    return number(cell) * 60.0


def count(cell: str) -> int:
    """A whole number; a fraction is rounded up, for half a device is a device taken."""
    return math.ceil(number(cell))


def priority(cell: str) -> int:
    """A whole number that a job may have as its priority."""
    value = number(cell)
    if not value.is_integer() or abs(value) > MOST_PRIORITY:
        raise InvalidLine(f"is not a whole number from {-MOST_PRIORITY} to {MOST_PRIORITY}: {_shown(cell)}")
    return int(value)


def weight(cell: str) -> float:
    """A number that a job may have as its weight."""
    value = number(cell)
    if not 1 / MOST_WEIGHT <= value <= MOST_WEIGHT:
        raise InvalidLine(f"is not between {1 / MOST_WEIGHT:g} and {MOST_WEIGHT:g}: {_shown(cell)}")
    return value


def kinds(cell: str) -> str:
    """Kinds of device that a job may have, each once, with commas between them; `any` stands alone."""
    words = [word.strip() for word in cell.split(",")]
    for word in words:
        if not is_kind(word):
            raise InvalidLine(f"names no kind of device: {_shown(word)}")
    if len(set(words)) < len(words) or (ANY in words and len(words) > 1):
        raise InvalidLine(f"names a kind twice: {_shown(cell)}")
    return ",".join(words)


def flag(cell: str) -> bool:
    if cell.lower() in ("1", "1.0", "true", "yes"):
        return True
    if cell.lower() in ("0", "0.0", "false", "no"):
        return False
    raise InvalidLine(f"is neither 0 nor 1: {_shown(cell)}")


def moment(cell: str) -> float:
    """Seconds since 1970 of a date with time, UTC where it names no zone; a number is taken as it is."""
    if ":" not in cell:
        return number(cell)
    try:
        at = datetime.fromisoformat(cell)
    except ValueError:
        raise InvalidLine(f"is neither a moment nor a number: {_shown(cell)}") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def elapsed(cell: str) -> float:
    """Seconds of `[DAYS-]HOURS:MINUTES:SECONDS`, `MINUTES:SECONDS` (as Slurm writes them), or of a number."""
    match = ELAPSED.fullmatch(cell)
    if match is None:
        return number(cell)
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def status(cell: str) -> Status | None:
    """None for a job that had not ended, and for words unknown. `CANCELLED by 1042` is `CANCELLED`."""
    word = cell.lower().split()[0] if cell else ""
    return STATUSES.get(word)


def loss_curve(cell: str) -> str:
    """The text of one. Raises ValueError that says what is wrong with it."""
    parse_loss(cell)
    return cell


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else f"{cell[:40]}...")
