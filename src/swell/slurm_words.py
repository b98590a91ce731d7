"""Lengths of time (90, 4:00:00, 2-12:30) and numbers of GPUs in the ways in which Slurm writes them."""

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


#: Which cores or indexes there are, such as `(S:0-1)`.
_REMARK = re.compile(r"\([^)]*\)")
#: `gpu`, `gpu:4`, `gpu:1g.5gb:7`, `gres/gpu=4`, `gres/gpu:a100=4`: a type may begin with a digit.
_GPUS = re.compile(r"(?:gres[:/])?gpu(?::[^=]*?)??(?:[:=](?P<num>[0-9]+))?")
#: Of a TRES: the number of all types together.
_WHOLE = re.compile(r"(?:gres/)?gpu=([0-9]+)")


def count_gpus(resources: str) -> int:
    """Count the GPUs of a GRES, `gpu:a100:4(S:0-1),gpu:2`, or a TRES, `cpu=64,gres/gpu=6,gres/gpu:a100=6`.

    All types count. Where there is no number it is 1; 0: no GPU is named.
    """
    parts = [part.strip() for part in _REMARK.sub("", resources).split(",")]
    whole = [match for part in parts if (match := _WHOLE.fullmatch(part))]
    found = [match for part in parts if (match := _GPUS.fullmatch(part))]
    return sum(int(match[1]) for match in whole) or sum(int(match["num"] or 1) for match in found)
