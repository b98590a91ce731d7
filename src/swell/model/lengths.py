"""Lengths of time as people say them."""

from __future__ import annotations

_HOUR_S = 3600
_DAY_S = 86_400
_YEAR_S = 365.25 * _DAY_S


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
