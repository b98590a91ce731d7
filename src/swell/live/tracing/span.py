"""A span that is over, and ids that every daemon gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

#: Value of an attribute; None: it is left out.
SpanValue = str | int | float | bool | list[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSpan:
    """Times are head time until the tracer passes it on, then calendar time."""

    trace_id: int
    span_id: int
    parent_id: int | None  #: None: the root of its trace
    name: str
    begin_s: float
    end_s: float
    attributes: Mapping[str, SpanValue]
    error: str = ""  #: for people; empty: none
    follows: str = ""  #: id of the job that this one continues


class SpanSink(Protocol):
    """Where spans go. Neither waits for a collector."""

    def put(self, span: FinishedSpan) -> None: ...
    def close(self) -> None:
        """Send what waits, within seconds."""


def trace_id_of(key: str) -> int:
    """Trace id of a job, from its id: the first 16 bytes of SHA-256. Later daemons continue the trace."""
    return int.from_bytes(sha256(key.encode()).digest()[:16])


def root_id_of(key: str) -> int:
    """The next 8 bytes."""
    return int.from_bytes(sha256(key.encode()).digest()[16:24])


def child_id_of(key: str, name: str, begin_s: float, end_s: float) -> int:
    return root_id_of(f"{key} {name} {begin_s!r} {end_s!r}")
