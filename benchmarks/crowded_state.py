"""A state folder of a platform that has had many jobs, made by the head itself and without a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from swell.executors.local.devices import parse_devices
from swell.live.submitter import JobFiles
from swell.model.event import AnyEvent, CancelRequested, JobProfiled, JobSubmitted, NodeJoined, Opened
from swell.model.job import EndCondition, JobSpec, Profile
from swell.scheduler import new_core
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
    past = _Past(folder)
    try:
        joined = [NodeJoined(at_s=BEGIN_S, node=node) for node in nodes]
        past.go_on([Opened(at_s=BEGIN_S), *joined])
        for numbers in _batches(0, num_ended):
            past.go_on([*_submitted(numbers, script), *_cancelled(numbers)])
        for numbers in _batches(num_ended, num_ended + num_open):
            past.go_on(list(_submitted(numbers, script)))
            past.go_on(list(_profiled(numbers, nodes[0].kind)))
    finally:
        past.close()


class _Past:
    """The head, and all that a platform writes of its turns."""

    def __init__(self, folder: StateFolder) -> None:
        self._core, self._journal = new_core(), SqlJournal(folder.journal)
        self._folders = JobFiles(folder.jobs)

    def go_on(self, events: list[AnyEvent]) -> None:
        """One turn and its fold."""
        batch = sorted(events, key=lambda event: event.at_s)
        self._journal.append(batch)
        self._core.handle(batch)
        self._journal.keep(self._core.ended_views(), self._core.stories())
        self._journal.fold(self._core.save())
        for event in batch:
            if isinstance(event, JobSubmitted):
                self._folders.reserve(event.job_id)

    def close(self) -> None:
        self._journal.close()


def _batches(first: int, end: int) -> Iterator[range]:
    return (range(begin, min(begin + BATCH, end)) for begin in range(first, end, BATCH))


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


def profile_of(kind: str) -> Profile:
    """Of the script, on devices of this kind."""
    return Profile(
        device_kind=kind,
        compute_s={1: 0.005, 2: 0.01, 4: 0.02, 8: 0.04, 16: 0.08},
        allreduce_s={1: 0.0, 2: 0.001, 4: 0.001, 8: 0.002},
        grad_bytes=20,
        state_bytes=20,
        samples_per_epoch=256,
        start_s=0.1,
    )


def _profiled(numbers: range, kind: str) -> Iterator[AnyEvent]:
    profile = profile_of(kind)
    for number in numbers:
        yield JobProfiled(at_s=BEGIN_S + EVERY_S * number + 0.5, job_id=_id(number), profile=profile)
