"""Formats of published logs without a line of column names: Gavel, Shockwave, SWF, and Philly as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from swell.sim.traces.entry import InvalidLine, NoJob, Status, TraceError, TraceJob
from swell.sim.traces.record import Format, Head, Source
from swell.sim.traces.table import is_blank, is_number, moment, number, status

_COMMON = ("type", "command", "steps_arg", "needs_data")
_SLO = ("steps", "devices", "weight", "slo", "submit")
_PLACED = ("type", "command", "folder", "steps_arg", "needs_data")
GAVEL_LAYOUTS: dict[int, tuple[str, ...]] = {
    7: (*_COMMON, "steps", "submit", "devices"),
    9: (*_COMMON, *_SLO),
    10: (*_PLACED, *_SLO),
}
SHOCKWAVE_LAYOUTS: dict[int, tuple[str, ...]] = {
    12: (*_PLACED, "steps", "devices", "mode", "weight", "slo", "duration", "submit")
}
BATCH = re.compile(r"(.+?) \(batch size (\d+)\)")
NUMBERS = frozenset({"steps", "devices", "slo", "duration", "submit"})


def _parsed(what: str, parse: Callable[[str], float], cell: str) -> float:
    """Raises InvalidLine that names the field."""
    try:
        return parse(cell)
    except InvalidLine as error:
        raise InvalidLine(f"{what} {error}") from error


def _gavel_job(layouts: dict[int, tuple[str, ...]], line: int, row_text: str) -> TraceJob:
    """Fields stand between tabs, and their number tells the layout.

    A job's type is `ResNet-18 (batch size 32)`: samples for each device.
    """
    cells = row_text.split("\t")
    layout = layouts.get(len(cells))
    if layout is None:
        known = ", ".join(str(width) for width in layouts)
        raise InvalidLine(f"number of fields is none of {known}: {len(cells)}")
    row = dict(zip(layout, cells, strict=True))
    values = {name: _parsed(name, number, cell.strip()) for name, cell in row.items() if name in NUMBERS}
    submit_s, duration_s, slo = values["submit"], values.get("duration"), values.get("slo", -1.0)
    num_devices = int(values["devices"])
    match = BATCH.fullmatch(row["type"])
    return TraceJob(
        id=str(line),
        submit_s=submit_s,
        num_devices=num_devices,
        duration_s=duration_s,
        model=match[1] if match else row["type"],
        global_batch=int(match[2]) * max(1, num_devices) if match else None,
        num_steps=values["steps"],
        # A service level is a multiple of the job's duration.
        deadline_s=submit_s + slo * duration_s if slo >= 0 and duration_s is not None else None,
    )


def _is_gavel(layouts: dict[int, tuple[str, ...]], head: Head) -> bool:
    cells = head.lines[0].split("\t") if head.lines else []
    row = dict(zip(layouts.get(len(cells), ()), cells, strict=False))
    return bool(row) and is_number(row["steps"]) and is_number(row["submit"])


BATCHES = "batch sizes are those of a device: a job's global batch is that times its devices"
GAVEL = Format(
    name="gavel",
    title="Gavel",
    notes=(BATCHES, "a service level without a duration gives no deadline"),
    looks_so=partial(_is_gavel, GAVEL_LAYOUTS),
    build=partial(_gavel_job, GAVEL_LAYOUTS),
)
SHOCKWAVE = Format(
    name="shockwave",
    title="Shockwave",
    notes=(BATCHES, "batch sizes that change while a job runs are left out"),
    looks_so=partial(_is_gavel, SHOCKWAVE_LAYOUTS),
    build=partial(_gavel_job, SHOCKWAVE_LAYOUTS),
)


#: The beginning of a job in such a file.
KEYS = re.compile(r'\{\s*"(?:status|vc|jobid|attempts|submitted_time|user)"\s*:')


def _philly_job(line: int, found: Any) -> TraceJob:
    """A job of Microsoft's Philly cluster, with its attempts."""
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
    return _parsed("a time", moment, value)


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
    build=_philly_job,
    items=_jobs,
)


NUM_FIELDS = 18
STATUSES: dict[int, Status] = {0: "failed", 1: "completed", 5: "killed"}
#: Status of lines that tell of one part of a job which stands on a line of its own as well.
PARTS = (2, 3, 4)


def _swf_job(line: int, row_text: str) -> TraceJob:
    """A job of the Parallel Workloads Archive: 18 numbers, -1 for unknown."""
    words = row_text.split()
    if len(words) != NUM_FIELDS:
        raise InvalidLine(f"number of fields is not {NUM_FIELDS}: {len(words)}")
    fields = [_parsed("a field", number, word) for word in words]
    job_id, submit_s, wait_s, run_s, allocated, _, _, requested, *_ = fields
    status, user, group = (int(field) for field in fields[10:13])
    if status in PARTS:
        raise NoJob("is one part of a job that stands on its own line")
    num_devices = requested if requested > 0 else allocated
    return TraceJob(
        id=f"{job_id:.0f}",
        submit_s=submit_s,
        num_devices=int(num_devices) if num_devices >= 0 else None,
        duration_s=run_s if run_s != -1 else None,
        user=str(user) if user >= 0 else None,
        tenant=str(group) if group >= 0 else None,
        status=STATUSES.get(status),
        ended_after_s=wait_s + run_s if wait_s >= 0 and run_s >= 0 else None,
    )


def _is_swf(head: Head) -> bool:
    words = head.lines[0].split() if head.lines else []
    return len(words) == NUM_FIELDS and all(is_number(word) for word in words)


SWF = Format(
    name="swf",
    title="Standard Workload Format",
    notes=("a processor counts as a device",),
    looks_so=_is_swf,
    build=_swf_job,
    comment=";",
    epoch=re.compile(r";\s*UnixStartTime\s*:\s*(\d+)"),
)
