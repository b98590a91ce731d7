"""When a snapshot was taken: from a line before it, the name of its file, or when the file was last changed.

A line of its own is a time: seconds since 1970 (`date +%s`), ISO 8601, what `date` prints, or the first
line of `sinfo --long`; it may begin with a `#`. The name of a file has a time in it as `1764020647`,
`20261124-214407` or `2026-11-24T21:44:07`. Times without a zone are UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

#: Of seconds since 1970: years 2001 to 2286.
_SECONDS = re.compile(r"(?<!\d)[1-9]\d{9}(?:\.\d+)?(?!\d)")
_DIGITS = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)[T_-]?(\d\d)[:-]?(\d\d)[:-]?(\d\d)(?!\d)")
_DATE = re.compile(r"[A-Z][a-z]{2} +([A-Z][a-z]{2}) +(\d+) +(\d\d:\d\d:\d\d)(?: (?:UTC|GMT))? (\d{4})")


def of_line(text: str) -> float | None:
    """Seconds since 1970, or None: the line is no time."""
    text = text.strip().removeprefix("#").strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    if match := _DATE.fullmatch(text):
        text = f"{match[4]} {match[1]} {match[2]} {match[3]}"
        try:
            return datetime.strptime(text, "%Y %b %d %H:%M:%S").replace(tzinfo=UTC).timestamp()
        except ValueError:
            return None
    if not text[:4].isdecimal():
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def of_file(file: Path) -> float:
    """Seconds since 1970 by the name, else by the last change of the file."""
    if match := _SECONDS.search(file.name):
        return float(match[0])
    if match := _DIGITS.search(file.name):
        try:
            return datetime(*map(int, match.groups()), tzinfo=UTC).timestamp()  # type: ignore[arg-type,misc]
        except ValueError:
            pass
    return file.stat().st_mtime
