"""Quantities as people write and say them: lengths of time, amounts of data, numbers of devices and jobs."""

from __future__ import annotations

import math
import re

_HOUR_S = 3600
_DAY_S = 86_400
_YEAR_S = 365.25 * _DAY_S
_UNITS_S = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION_FORM = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", re.ASCII)
_BYTES_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BYTES_FORM = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?|[KMGT]i)B?", re.ASCII | re.IGNORECASE)


def span(seconds: float) -> str:
    """Return a length of time as people say it: `41 s`, `3 min 20 s`, `2 h 52 min`, `9 days 4 h`.

    All texts for people have their lengths of time from here; the browser has the same in `format.js`.
    """
    length = abs(seconds)
    if length < 9.95:
        return _few_seconds(length)
    if length < 99.5:
        return f"{length:.0f} s"
    if length < 599.5:
        return _two(length, 60, "min", "s")
    if length < _HOUR_S - 30:
        return f"{length / 60:.0f} min"
    if length < _DAY_S - 30:
        return _two(length / 60, 60, "h", "min")
    if length < 10 * _DAY_S:
        return _two(length / _HOUR_S, 24, "days", "h")
    if length < 2 * _YEAR_S:
        return f"{length / _DAY_S:.0f} days"
    return f"{length / _YEAR_S:,.0f} years"


def relative(length_s: float) -> str:
    """Return a time relative to now: `in 41 s`, `now`, `12 min ago`."""
    if abs(length_s) < 0.5:
        return "now"
    return f"in {span(length_s)}" if length_s > 0 else f"{span(length_s)} ago"


def _few_seconds(length: float) -> str:
    if length < 0.0005:
        return "0 s"
    if length < 0.0995:
        return f"{1000 * length:.2g} ms"
    return f"{length:.2g} s"


def _two(length: float, factor: int, unit: str, small_unit: str) -> str:
    """Say a length, which is in the smaller unit, in both units."""
    large, small = divmod(round(length), factor)
    name = unit.removesuffix("s") if large == 1 and unit == "days" else unit
    return f"{large} {name} {small} {small_unit}" if small else f"{large} {name}"


def parse_duration(text: str) -> float:
    """Seconds.

    Raises:
        ValueError: not of this form.
    """
    match = _DURATION_FORM.fullmatch(text.strip())
    if not match or not any(match.groups()):
        raise ValueError(f"{text!r} is not a duration; write 90s, 3m, 2h, 1d or 1h30m")
    return sum(
        float(part or 0) * unit_s for part, unit_s in zip(match.groups(), _UNITS_S.values(), strict=True)
    )


def as_number(text: str) -> float:
    """The number that a text spells; NaN if it spells none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def parse_half_life(text: str) -> float:
    """Seconds; 0 is allowed. Raises ValueError."""
    return 0.0 if text.strip() == "0" else parse_duration(text)


def format_duration(seconds: float) -> str:
    """Whole seconds, in the same form: `3m10s`. `parse_duration` reads it back."""
    rest = round(seconds)
    parts = []
    for unit, unit_s in _UNITS_S.items():
        count, rest = divmod(rest, unit_s)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


_BYTES_UNITS |= {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def parse_bytes(text: str) -> int:
    """Bytes.

    Raises:
        ValueError: not of this form.
    """
    match = _BYTES_FORM.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not an amount of data; write one as 500M, 10G or 4GiB")
    return round(float(match[1]) * _BYTES_UNITS[match[2].upper()])


def format_bytes(num_bytes: float) -> str:
    """`78.1 GB`, in units of a thousand."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}" if unit == "bytes" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} TB"


def told_devices(num: int) -> str:
    """1 device, 2 devices."""
    return _told(num, "device")


def told_workers(num: int) -> str:
    """1 worker, 2 workers."""
    return _told(num, "worker")


def told_jobs(num: int) -> str:
    """1 job, 2 jobs."""
    return _told(num, "job")


def told_other_jobs(num: int) -> str:
    """1 other job, 2 other jobs."""
    return _told(num, "other job")


def _told(num: int, thing: str) -> str:
    return f"{num} {thing}" if num == 1 else f"{num} {thing}s"
