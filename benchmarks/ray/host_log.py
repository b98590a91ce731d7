"""When the host of a node had reached what on its way to workers, by its log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from tests.machines.namespaces import Machine

#: What a host has reached, in this order, by a part of the line that says so.
STAGES = {
    "its own modules are imported": " device",
    "it has joined the head": "joined the head at",
    "torch is imported": "modules are imported",
}
LOGS = "swell-ray-*/host.log"
_STAMP, _STAMP_CHARACTERS = "%Y-%m-%d %H:%M:%S,%f", 23


def times_reached(lines: Sequence[str]) -> dict[str, float]:
    """Seconds of the calendar clock, by stage. Those that are not reached yet are not there."""
    found = {stage: next((line for line in lines if part in line), "") for stage, part in STAGES.items()}
    return {
        stage: datetime.strptime(line[:_STAMP_CHARACTERS], _STAMP).astimezone().timestamp()
        for stage, line in found.items()
        if line
    }


def last_reached(machines: Iterable[Machine]) -> dict[str, float]:
    """When the last of these machines had reached each stage that each has reached."""
    times = [
        times_reached(log.read_text().splitlines())
        for machine in machines
        for log in machine.outside("/tmp").glob(LOGS)  # noqa: S108
    ]
    return {
        stage: max(each[stage] for each in times)
        for stage in STAGES
        if times and all(stage in each for each in times)
    }
