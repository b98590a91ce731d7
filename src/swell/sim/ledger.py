"""Jobs of a run as long as they are open, and what became of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

from swell.model.view import JobView
from swell.sim.item_source import ItemSource
from swell.sim.job import SimJob
from swell.sim.outcome import JobOutcome, outcome_of, too_large
from swell.sim.segments import SegmentLog


class JobLedger:
    """Hands jobs to a world one by one, and keeps of each that has ended its outcome.

    Args:
        jobs: by submission, unless all are in memory anyway.
        most_devices: of that one of several kinds which has most; a job that needs more never enters.
        log: of what gangs did, which is kept with the outcomes.
    """

    def __init__(
        self,
        jobs: ItemSource[SimJob],
        most_devices: Callable[[tuple[str, ...]], int],
        log: SegmentLog | None = None,
    ) -> None:
        self._log = log
        self._outcomes: dict[int, JobOutcome] = {}  #: by place in the workload
        self.num_ended = 0
        self._jobs = jobs
        self._most_devices = cache(most_devices)
        self._open: dict[str, tuple[int, SimJob]] = {}  #: id -> place in the workload, job

    def arrivals(self) -> Iterator[SimJob]:
        """Each job in its turn. Raises ValueError if two that are known at one time have one id."""
        for place, job in _in_turn(self._jobs):
            kinds = job.spec.kinds if job.spec.kinds and not job.spec.kind else (job.spec.kind,)
            most_devices = self._most_devices(kinds)
            if job.smallest_devices > most_devices:
                self._outcomes[place] = too_large(job, most_devices)
                continue
            if job.id in self._open:
                raise ValueError(f"job {job.id!r} is in the workload twice; ids are unique")
            self._open[job.id] = place, job
            yield job

    def end(self, view: JobView, now_s: float) -> None:
        """The job has ended, and is forgotten but for its outcome."""
        self._note(view, now_s)
        self.num_ended += 1

    def close(self, views: Iterable[JobView], now_s: float) -> list[JobOutcome]:
        """The run is over, and left these jobs open. Returns all outcomes, in the order of the workload."""
        for view in views:
            self._note(view, now_s)
        return [outcome for _, outcome in sorted(self._outcomes.items())]

    def _note(self, view: JobView, now_s: float) -> None:
        place, job = self._open.pop(view.id)
        segments = () if self._log is None else self._log.take(job.id, now_s)
        self._outcomes[place] = outcome_of(job, view, now_s, segments)


def _in_turn(jobs: ItemSource[SimJob]) -> Iterable[tuple[int, SimJob]]:
    """(place, job) by submission; of those at one moment the first in the workload first."""
    if isinstance(jobs, list | tuple):
        return sorted(enumerate(jobs), key=lambda entry: entry[1].submit_s)
    return enumerate(jobs)
