"""What is in a trace, in numbers; gathered while the file is read."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from swell.sim.traces.entry import Skipped, TraceJob
from swell.sim.traces.read import TraceScan

#: Skipped lines that are shown of each reason.
NUM_EXAMPLES = 3
#: Models, tenants and users beyond so many are counted as one.
NUM_NAMES = 100_000
OTHERS = "(others)"
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


class SurveyTally:
    """Adds up jobs for a survey."""

    def __init__(self) -> None:
        self.jobs = self.with_deadline = self.with_steps = self.best_effort = self.soft = 0
        self.device_seconds = 0.0
        self.first_s, self.last_s = float("inf"), float("-inf")
        self.durations_s = array("d")
        self.deadline_shares = array("d")
        self.devices: Counter[int] = Counter()
        self.models: Counter[str] = Counter()
        self.status: Counter[str] = Counter()
        self.users: Counter[str] = Counter()
        self.tenants: Counter[str] = Counter()
        self.skipped: dict[str, SkippedLines] = {}

    def add(self, job: TraceJob) -> None:
        self.jobs += 1
        self.first_s, self.last_s = min(self.first_s, job.submit_s), max(self.last_s, job.submit_s)
        self._add_work(job)
        self._add_deadline(job)
        for counter, name in (
            (self.models, job.model),
            (self.status, job.status),
            (self.users, job.user),
            (self.tenants, job.tenant),
        ):
            if name is not None:
                counter[name if name in counter or len(counter) < NUM_NAMES else OTHERS] += 1

    def _add_work(self, job: TraceJob) -> None:
        self.with_steps += job.num_steps is not None
        if job.num_devices is not None:
            self.devices[job.num_devices] += 1
        if job.duration_s is not None:
            self.durations_s.append(job.duration_s)
            self.device_seconds += job.duration_s * (job.num_devices or 1)

    def _add_deadline(self, job: TraceJob) -> None:
        self.best_effort += bool(job.is_best_effort)
        self.soft += bool(job.is_soft)
        if job.deadline_s is None or job.is_best_effort:
            return
        self.with_deadline += 1
        if job.duration_s is not None:
            self.deadline_shares.append((job.deadline_s - job.submit_s) / job.duration_s)

    def skip(self, entry: Skipped) -> None:
        if entry.rule not in self.skipped:
            self.skipped[entry.rule] = SkippedLines(
                why=entry.rule, count=0, is_malformed=entry.is_malformed, examples=[]
            )
        lines = self.skipped[entry.rule]
        lines.count += 1
        if len(lines.examples) < NUM_EXAMPLES:
            lines.examples.append(entry)


def survey(path: Path, format_name: str | None = None, is_strict: bool = False) -> TraceSurvey:
    """Reads the file once. Arguments and errors as in `TraceScan`."""
    scan = TraceScan(path, format_name, is_strict)
    tally = SurveyTally()
    for entry in scan:
        if isinstance(entry, TraceJob):
            tally.add(entry)
        else:
            tally.skip(entry)
    span_s = tally.last_s - tally.first_s if tally.jobs else None
    return TraceSurvey(
        source=str(path),
        format=scan.format.name,
        title=scan.format.title,
        jobs=tally.jobs,
        epoch_s=tally.first_s + scan.base_s if tally.jobs else None,
        span_s=span_s,
        device_seconds=tally.device_seconds,
        mean_devices=tally.device_seconds / span_s if span_s else None,
        devices=dict(sorted(tally.devices.items())),
        duration_s=quantiles(tally.durations_s),
        models=dict(tally.models.most_common()),
        with_deadline=tally.with_deadline,
        deadline_share=quantiles(tally.deadline_shares),
        with_steps=tally.with_steps,
        best_effort=tally.best_effort,
        soft=tally.soft,
        status=dict(tally.status.most_common()),
        users=len(tally.users),
        tenants=len(tally.tenants),
        skipped=sorted(tally.skipped.values(), key=lambda lines: -lines.count),
        notes=scan.notes(),
    )
