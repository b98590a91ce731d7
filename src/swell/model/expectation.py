"""The part of a reason that says when a job is expected to start or to end: it is renewed, or left out."""

from __future__ import annotations

import math
import re

from swell.model.lengths import relative

#: Before the time in which a job will have ended, or started, by the plan that gives the reason.
EXPECTED_END = "expected to end"
EXPECTED_START = "expected to start"
_END = re.compile(rf"[;,] {EXPECTED_END} [^;,:(]+")
_EITHER = re.compile(rf"([;,] ({EXPECTED_END}|{EXPECTED_START}) )[^;,:(]+")


def without_expected_end(reason: str) -> str:
    """Leave out the end that a reason expects, for pages that show that end elsewhere, and renew it."""
    return _END.sub("", reason)


def without_expectations(reason: str) -> str:
    """Leave out when a job is expected to start or to end: a line of a story is not renewed."""
    return _EITHER.sub("", reason)


def with_expectations(reason: str, start_s: float, end_s: float) -> str:
    """Say in a reason that the job starts and ends so long from now; what is not finite is left out."""

    def renewed(part: re.Match[str]) -> str:
        in_s = end_s if part[2] == EXPECTED_END else start_s
        return part[1] + relative(in_s) if math.isfinite(in_s) else ""

    return _EITHER.sub(renewed, reason)
