"""Amounts of data as people write them: 500M, 10G, 1.5T, 4GiB."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_FORM = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?|[KMGT]i)B?", re.ASCII | re.IGNORECASE)


def parse_bytes(text: str) -> int:
    """Bytes.

    Raises:
        ValueError: not of this form.
    """
    match = _FORM.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not an amount of data; write one as 500M, 10G or 4GiB")
    return round(float(match[1]) * _UNITS[match[2].upper()])


def format_bytes(num_bytes: float) -> str:
    """`78.1 GB`, in units of a thousand."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}" if unit == "bytes" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} TB"
