"""What `swell doctor` says of one thing that it has looked at."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"  #: something should be done, sooner or later
    BAD = "bad"  #: the platform cannot start, or loses something


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    level: Level
    about: str
    text: str
    remedy: str = ""


def ok(about: str, text: str, remedy: str = "") -> Finding:
    """`remedy`: how what is not needed could be had."""
    return Finding(level=Level.OK, about=about, text=text, remedy=remedy)


def warn(about: str, text: str, remedy: str) -> Finding:
    return Finding(level=Level.WARN, about=about, text=text, remedy=remedy)


def bad(about: str, text: str, remedy: str) -> Finding:
    return Finding(level=Level.BAD, about=about, text=text, remedy=remedy)
