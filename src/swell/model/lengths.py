"""Lengths of time as people read them."""

from __future__ import annotations


def span(seconds: float) -> str:
    """`41 s`, `12 min`, `5.2 h`, `9 days`: as fine as one cares to know."""
    seconds = abs(seconds)
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.0f} days"


def relative(length_s: float) -> str:
    """Text for a time relative to now: `in 41 s`, `12 min ago`."""
    return f"in {span(length_s)}" if length_s > 0 else f"{span(length_s)} ago"
