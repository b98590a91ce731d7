"""How `swell trace info` shows a survey."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from swell.model.lengths import span
from swell.sim.traces.record import plural
from swell.sim.traces.survey import TraceSurvey

#: Kinds shown of devices and models; what there is beyond is counted.
NUM_SHOWN = 8
HOUR_S = 3600.0
#: Clocks between these stand at seconds since 1970: 2001 to 5138.
CALENDAR = (1e9, 1e11)


def rows(found: TraceSurvey) -> Iterator[tuple[str, str]]:
    """(what, in words); nothing for what no job tells."""
    yield "file", found.source
    yield "format", f"{found.format} ({found.title})"
    yield "jobs", _jobs(found)
    if found.devices:
        yield "devices", _counted({str(number): jobs for number, jobs in found.devices.items()})
    if found.duration_s:
        quantiles = ", ".join(f"{name} {span(value)}" for name, value in found.duration_s.items())
        yield "duration", quantiles
    if found.device_seconds:
        yield "work", _work(found)
    if found.models:
        yield "models", _counted(found.models)
    yield "deadlines", _deadlines(found)
    yield "steps", f"known of {plural(found.with_steps, 'job')}" if found.with_steps else "none"
    if found.status:
        yield "ended", _counted(found.status)
    if found.users or found.tenants:
        yield "from", f"{plural(found.users, 'user')}, {plural(found.tenants, 'tenant')}"
    yield from (("note", note) for note in found.notes)


def skipped_rows(found: TraceSurvey) -> Iterator[tuple[str, str, str]]:
    """(number, reason, example) for each reason for which lines were skipped."""
    for lines in found.skipped:
        shown = ", ".join(f"line {entry.line}" for entry in lines.examples[:1])
        detail = lines.examples[0].why.partition(":")[2].strip()
        kind = "malformed: " if lines.is_malformed else ""
        yield f"{lines.count:,}", f"{kind}{lines.why}", f"{shown}: {detail}" if detail else shown


def _jobs(found: TraceSurvey) -> str:
    if found.epoch_s is None or found.span_s is None:
        return "none"
    return f"{found.jobs:,}, the first at {_begin(found.epoch_s)}, the last {span(found.span_s)} later"


def _begin(epoch_s: float) -> str:
    if CALENDAR[0] < epoch_s < CALENDAR[1]:
        return f"{datetime.fromtimestamp(epoch_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{epoch_s:,.0f} s"


def _counted(counts: dict[str, int]) -> str:
    """`1: 96,652, 2: 2,522, 3 more`, in the order given."""
    parts = [f"{name}: {count:,}" for name, count in list(counts.items())[:NUM_SHOWN]]
    if len(counts) > NUM_SHOWN:
        parts.append(f"{len(counts) - NUM_SHOWN:,} more")
    return ", ".join(parts)


def _work(found: TraceSurvey) -> str:
    hours = f"{found.device_seconds / HOUR_S:,.0f} device-hours"
    if found.mean_devices is None:
        return hours
    return f"{hours}, {found.mean_devices:,.1f} devices busy over the time of arrivals"


def _deadlines(found: TraceSurvey) -> str:
    parts = [plural(found.with_deadline, "job") if found.with_deadline else "none"]
    if found.deadline_share:
        low, middle, high = (found.deadline_share[name] for name in ("p10", "p50", "p90"))
        parts.append(f"after {low:.2f}, {middle:.2f}, {high:.2f} durations (p10, p50, p90)")
    parts += [
        f"{count:,} {name}"
        for name, count in (("soft", found.soft), ("best-effort", found.best_effort))
        if count
    ]
    return ", ".join(parts)
