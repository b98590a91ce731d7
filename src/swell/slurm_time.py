"""Lengths of time as Slurm writes them: 90, 90:30, 4:00:00, 2-12, 2-12:30, 2-12:30:00."""

from __future__ import annotations

import re

#: With days the first part behind them is hours; without, one part is minutes and two are minutes:seconds.
_WITH_DAYS = re.compile(r"(\d+)-(\d+)(?::(\d+)(?::(\d+))?)?", re.ASCII)
_HOURS = re.compile(r"(\d+):(\d+):(\d+)", re.ASCII)
_MINUTES = re.compile(r"(\d+)(?::(\d+))?", re.ASCII)


def slurm_seconds(text: str) -> int:
    """Seconds of a length of time.

    Raises:
        ValueError: not one of Slurm's formats.
    """
    if match := _WITH_DAYS.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    elif match := _HOURS.fullmatch(text):
        days, (hours, minutes, seconds) = 0, map(int, match.groups())
    elif match := _MINUTES.fullmatch(text):
        days, hours, (minutes, seconds) = 0, 0, (int(part or 0) for part in match.groups())
    else:
        raise ValueError(
            f"{text!r} is no time of Slurm's; write minutes, minutes:seconds, hours:minutes:seconds, or "
            "days-hours[:minutes[:seconds]]"
        )
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
