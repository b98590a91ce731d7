"""Traces of Gavel, in three layouts, and of Shockwave; fields between tabs, no header.

The number of fields tells the layout. A job's type is `ResNet-18 (batch size 32)`: samples for each device.
"""

from __future__ import annotations

import re
from functools import partial

from swell.sim.traces.cells import is_number, number
from swell.sim.traces.entry import InvalidLine, TraceJob
from swell.sim.traces.record import Format, Head

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


def build(layouts: dict[int, tuple[str, ...]], line: int, row_text: str) -> TraceJob:
    cells = row_text.split("\t")
    layout = layouts.get(len(cells))
    if layout is None:
        known = ", ".join(str(width) for width in layouts)
        raise InvalidLine(f"number of fields is none of {known}: {len(cells)}")
    row = dict(zip(layout, cells, strict=True))
    values = {name: _number(name, cell) for name, cell in row.items() if name in NUMBERS}
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


def _number(name: str, cell: str) -> float:
    try:
        return number(cell.strip())
    except InvalidLine as error:
        raise InvalidLine(f"{name} {error}") from error


def _looks_so(layouts: dict[int, tuple[str, ...]], head: Head) -> bool:
    cells = head.lines[0].split("\t") if head.lines else []
    row = dict(zip(layouts.get(len(cells), ()), cells, strict=False))
    return bool(row) and is_number(row["steps"]) and is_number(row["submit"])


BATCHES = "batch sizes are those of a device: a job's global batch is that times its devices"
GAVEL = Format(
    name="gavel",
    title="Gavel",
    notes=(BATCHES, "a service level without a duration gives no deadline"),
    looks_so=partial(_looks_so, GAVEL_LAYOUTS),
    build=partial(build, GAVEL_LAYOUTS),
)
SHOCKWAVE = Format(
    name="shockwave",
    title="Shockwave",
    notes=(BATCHES, "batch sizes that change while a job runs are left out"),
    looks_so=partial(_looks_so, SHOCKWAVE_LAYOUTS),
    build=partial(build, SHOCKWAVE_LAYOUTS),
)
