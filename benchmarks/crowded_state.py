"""A state folder of a platform that has had many jobs, made by the head itself and without a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from swell.assemble import new_core
from swell.core.core import Core
from swell.executors.local.devices import parse_devices
from swell.model.event import AnyEvent, CancelRequested, JobProfiled, JobSubmitted, NodeJoined, Opened
from swell.model.job import EndCondition, JobSpec, Profile
from swell.model.view import JobView, Story
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal

#: Events that the head hears in one batch.
BATCH = 500
#: Seconds between two submissions, and when the first was.
EVERY_S, BEGIN_S = 1.0, 1_700_000_000.0


def write_crowded_state(path: Path, script: Path, devices: str, num_ended: int, num_open: int) -> None:
    """Jobs that were cancelled in the queue, then jobs that were measured and wait, all of one script."""
    folder = StateFolder(path)
    folder.create()
    nodes = [local.node for local in parse_devices(devices)]
    core, journal = new_core(), SqlJournal(folder.journal)
    try:
        joined = [NodeJoined(at_s=BEGIN_S, node=node) for node in nodes]
        core.handle([Opened(at_s=BEGIN_S), *joined])
        for index in range(0, num_ended, BATCH):
            numbers = range(index, min(index + BATCH, num_ended))
            ended, stories = _told(core, [*_submitted(numbers, script), *_cancelled(numbers)])
            journal.fold(core.save(), ended, stories)
        for index in range(num_ended, num_ended + num_open, BATCH):
            numbers = range(index, min(index + BATCH, num_ended + num_open))
            for events in (_submitted(numbers, script), _profiled(numbers, nodes[0].kind)):
                ended, stories = _told(core, list(events))
                journal.fold(core.save(), ended, stories)
    finally:
        journal.close()


def _told(core: Core, events: list[AnyEvent]) -> tuple[list[JobView], list[tuple[str, Story]]]:
    core.handle(sorted(events, key=lambda event: event.at_s))
    return core.ended_views(), core.stories()


def _id(number: int) -> str:
    return f"tiny-{number:06x}"


def _submitted(numbers: range, script: Path) -> Iterator[AnyEvent]:
    for number in numbers:
        spec = JobSpec(
            name="tiny",
            entry=str(script),
            workdir=str(script.parent),
            global_batch=16,
            end=EndCondition(steps=10**6),
        )
        yield JobSubmitted(at_s=BEGIN_S + EVERY_S * number, job_id=_id(number), spec=spec)


def _cancelled(numbers: range) -> Iterator[AnyEvent]:
    for number in numbers:
        yield CancelRequested(at_s=BEGIN_S + EVERY_S * number + 0.5, job_id=_id(number))


def _profiled(numbers: range, kind: str) -> Iterator[AnyEvent]:
    profile = Profile(
        device_kind=kind,
        compute_s={1: 0.005, 2: 0.01, 4: 0.02, 8: 0.04, 16: 0.08},
        allreduce_s={1: 0.0, 2: 0.001, 4: 0.001, 8: 0.002},
        grad_bytes=20,
        state_bytes=20,
        samples_per_epoch=256,
        start_s=0.1,
    )
    for number in numbers:
        yield JobProfiled(at_s=BEGIN_S + EVERY_S * number + 0.5, job_id=_id(number), profile=profile)
