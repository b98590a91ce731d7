"""Microsoft's Philly cluster as published: `cluster_job_log`, a JSON list of jobs with their attempts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from swell.sim.traces.cells import is_blank, moment, status
from swell.sim.traces.entry import InvalidLine, NoJob, TraceError, TraceJob
from swell.sim.traces.record import Format
from swell.sim.traces.source import Source

#: The beginning of a job in such a file.
KEYS = re.compile(r'\{\s*"(?:status|vc|jobid|attempts|submitted_time|user)"\s*:')


def build(line: int, found: Any) -> TraceJob:
    if not isinstance(found, dict):
        raise InvalidLine("is no JSON object")
    attempts = found.get("attempts")
    if not isinstance(attempts, list) or not all(isinstance(attempt, dict) for attempt in attempts):
        raise InvalidLine("attempts is no list of objects")
    submit_s = _time(found.get("submitted_time"))
    if submit_s is None:
        raise InvalidLine("submitted_time is missing")
    if not attempts:
        raise NoJob("never ran")
    spans = [(_time(attempt.get("start_time")), _time(attempt.get("end_time"))) for attempt in attempts]
    ended_s = [end_s - start_s for start_s, end_s in spans if start_s is not None and end_s is not None]
    is_ended = len(ended_s) == len(spans)
    last_s = max((end_s for _, end_s in spans if end_s is not None), default=None)
    return TraceJob(
        id=_word(found.get("jobid")) or str(line),
        submit_s=submit_s,
        num_devices=max(_num_gpus(attempt) for attempt in attempts),
        duration_s=sum(ended_s) if is_ended else None,
        user=_word(found.get("user")),
        tenant=_word(found.get("vc")),
        status=status(_word(found.get("status")) or ""),
        ended_after_s=last_s - submit_s if is_ended and last_s is not None else None,
    )


def _word(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    words = " ".join(value.split())
    # JSON can spell half a surrogate, which no file can be written with.
    return words.encode("utf-8", "replace").decode() or None


def _time(value: Any) -> float | None:
    if value is None or (isinstance(value, str) and is_blank(value)):
        return None
    if not isinstance(value, str):
        raise InvalidLine("a time is no text")
    try:
        return moment(value)
    except InvalidLine as error:
        raise InvalidLine(f"a time {error}") from error


def _num_gpus(attempt: dict[str, Any]) -> int:
    detail = attempt.get("detail") or []
    try:
        return sum(len(machine["gpus"]) for machine in detail)
    except (TypeError, KeyError):
        raise InvalidLine("detail is no list of machines with gpus") from None


def _jobs(source: Source) -> Iterator[tuple[int, Any]]:
    """Raises TraceError."""
    with source.open() as text:
        try:
            found = json.load(text)
        except (ValueError, RecursionError) as error:
            raise TraceError(f"{source.path} is no JSON list of jobs ({error}); fetch it again") from error
    yield from enumerate(found if isinstance(found, list) else [found], 1)


PHILLY_JSON = Format(
    name="philly-json",
    title="Philly, cluster_job_log",
    notes=(
        "times name no zone: read as UTC",
        "a job's duration is that of its attempts together, its devices those of its largest",
    ),
    looks_so=lambda head: head.text.lstrip()[:1] in ("[", "{") and KEYS.search(head.text) is not None,
    build=build,
    items=_jobs,
)
