"""What is in a trace, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from swell.sim.traces.entry import Skipped
from swell.sim.traces.read import by_name, read

#: Skipped lines that are shown of each reason.
NUM_EXAMPLES = 3
Value = TypeVar("Value")
QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


class SkippedLines(msgspec.Struct, kw_only=True):
    """Lines that became no job for one and the same reason."""

    why: str
    count: int
    is_malformed: bool
    examples: list[Skipped]  #: the first few


class TraceSurvey(msgspec.Struct, kw_only=True):
    """Numbers of a trace. What no job tells is empty, 0 or None."""

    source: str
    format: str
    title: str  #: of the format
    jobs: int
    epoch_s: float | None  #: the first submission on the log's own clock
    span_s: float | None  #: from the first submission to the last
    device_seconds: float  #: durations times devices, of jobs that tell both
    mean_devices: float | None  #: device-seconds over the span: what the jobs would keep busy
    devices: dict[int, int]  #: number asked for -> jobs
    duration_s: dict[str, float]  #: quantiles
    models: dict[str, int]  #: most frequent first
    with_deadline: int
    deadline_share: dict[str, float]  #: quantiles of (deadline - submission) / duration
    with_steps: int
    best_effort: int
    soft: int
    status: dict[str, int]
    users: int
    tenants: int
    skipped: list[SkippedLines]
    notes: tuple[str, ...]


def quantiles(values: Iterable[float]) -> dict[str, float]:
    """Return values that occur, by the names of `QUANTILES`; empty if there are none."""
    ordered = sorted(values)
    if not ordered:
        return {}
    return {name: ordered[round(share * (len(ordered) - 1))] for name, share in QUANTILES.items()}


def survey(path: Path, format_name: str | None = None, is_strict: bool = False) -> TraceSurvey:
    """Arguments and errors as in `read`."""
    trace = read(path, format_name, is_strict)
    jobs = trace.jobs
    span_s = jobs[-1].submit_s if jobs else None
    device_seconds = sum((job.duration_s or 0.0) * (job.num_devices or 1) for job in jobs)
    due = [(job, job.deadline_s) for job in jobs if job.deadline_s is not None and not job.is_best_effort]
    return TraceSurvey(
        source=trace.source,
        format=trace.format,
        title=by_name(trace.format).title,
        jobs=len(jobs),
        epoch_s=trace.epoch_s if jobs else None,
        span_s=span_s,
        device_seconds=device_seconds,
        mean_devices=device_seconds / span_s if span_s else None,
        devices=dict(sorted(_counted(job.num_devices for job in jobs).items())),
        duration_s=quantiles(job.duration_s for job in jobs if job.duration_s is not None),
        models=_counted(job.model for job in jobs),
        with_deadline=len(due),
        deadline_share=quantiles(
            (at_s - job.submit_s) / job.duration_s for job, at_s in due if job.duration_s
        ),
        with_steps=sum(job.num_steps is not None for job in jobs),
        best_effort=sum(bool(job.is_best_effort) for job in jobs),
        soft=sum(bool(job.is_soft) for job in jobs),
        status=_counted(job.status for job in jobs),
        users=len(_counted(job.user for job in jobs)),
        tenants=len(_counted(job.tenant for job in jobs)),
        skipped=_by_reason(trace.skipped),
        notes=trace.notes,
    )


def _counted(values: Iterable[Value | None]) -> dict[Value, int]:
    """Count how often each value occurs; the most frequent comes first."""
    return dict(Counter(value for value in values if value is not None).most_common())


def _by_reason(skipped: Iterable[Skipped]) -> list[SkippedLines]:
    """Group skipped lines by reason; the reason of the most lines comes first."""
    found: dict[str, SkippedLines] = {}
    for entry in skipped:
        fresh = SkippedLines(why=entry.rule, count=0, is_malformed=entry.is_malformed, examples=[])
        lines = found.setdefault(entry.rule, fresh)
        lines.count += 1
        if len(lines.examples) < NUM_EXAMPLES:
            lines.examples.append(entry)
    return sorted(found.values(), key=lambda lines: -lines.count)
