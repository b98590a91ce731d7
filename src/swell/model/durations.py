"""Lengths of time as people write them: 90s, 3m, 2h, 1d, 1h30m."""

from __future__ import annotations

import re

_UNITS_S = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_FORM = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", re.ASCII)


def parse_duration(text: str) -> float:
    """Seconds.

    Raises:
        ValueError: not of this form.
    """
    match = _FORM.fullmatch(text.strip())
    if not match or not any(match.groups()):
        raise ValueError(f"{text!r} is not a duration; write 90s, 3m, 2h, 1d or 1h30m")
    return sum(
        float(part or 0) * unit_s for part, unit_s in zip(match.groups(), _UNITS_S.values(), strict=True)
    )


def format_duration(seconds: float) -> str:
    """Whole seconds, in the same form: `3m10s`. `parse_duration` reads it back."""
    rest = round(seconds)
    parts = []
    for unit, unit_s in _UNITS_S.items():
        count, rest = divmod(rest, unit_s)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
