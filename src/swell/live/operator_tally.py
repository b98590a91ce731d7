"""All that is counted from the daemon's start on, for people who run platforms."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from swell.live.device_time_tally import DeviceTimeTally, TenantKind
from swell.live.finish_errors import FinishErrors
from swell.live.histogram import Histogram
from swell.live.job_tally import AfterNoPromise, JobTally
from swell.live.node_tally import NodeTally
from swell.live.resize_tally import ResizeTally
from swell.live.turns import Turn
from swell.model.calendar import Calendar
from swell.model.job import JobClass, Phase
from swell.model.resize import Verdict
from swell.model.view import JobView

#: Seconds; a turn of the head takes milliseconds.
TURNS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """A copy of the tally at one moment; all are since the daemon's start."""

    submitted: Mapping[JobClass, int]
    ended: Mapping[tuple[Phase, JobClass], int]
    num_promised: int
    num_kept: int
    missed: Mapping[Phase, int]
    refused: Mapping[AfterNoPromise, int]
    finish_error_s: Histogram
    finish_error_share: Histogram
    resizes: Mapping[Verdict, int]
    resize_pause_s: Histogram
    resize_saved_s: float
    resize_lost_s: float
    device_s: Mapping[TenantKind, float]
    node_losses: Mapping[bool, int]  #: by whether the node was to be left anyway
    events: Mapping[str, int]
    stories: Mapping[str, int]
    journal_s: Histogram
    decision_s: Histogram
    turn_s: Histogram


class OperatorTally:
    """Listens to turns in one thread, is read from any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs, self._nodes, self._resizes = JobTally(), NodeTally(), ResizeTally()
        self._errors, self._device_time = FinishErrors(), DeviceTimeTally()
        self._journal_s, self._decision_s, self._turn_s = (Histogram(TURNS_S) for _ in range(3))

    def begin(self, views: Iterable[JobView], calendar: Calendar, warned: Iterable[str]) -> None:
        """What came before counts no more: a restart repeats what the journal tells since its last fold.

        Args:
            views: the open jobs.
            warned: names of the nodes that are to be left.
        """
        known = list(views)
        self._jobs.begin(known, calendar)
        self._resizes.begin(known)
        self._errors.begin(known)
        self._device_time.begin(known)
        self._nodes.begin(warned)

    def hear(self, turn: Turn) -> None:
        """Count what came of a turn."""
        with self._lock:
            for part in (self._jobs, self._nodes, self._resizes, self._errors, self._device_time):
                part.hear(turn)
            self._journal_s.add(turn.took.journal_s)
            self._decision_s.add(turn.took.decision_s)
            self._turn_s.add(turn.took.turn_s)

    def counts(self) -> Counts:
        """Return a copy of the present counts."""
        jobs, resizes, errors = self._jobs, self._resizes, self._errors
        with self._lock:
            return Counts(
                submitted=Counter(jobs.submitted),
                ended=Counter(jobs.ended),
                num_promised=jobs.num_promised,
                num_kept=jobs.num_kept,
                missed=Counter(jobs.missed),
                refused=Counter(jobs.refused),
                finish_error_s=errors.error_s.copy(),
                finish_error_share=errors.error_share.copy(),
                resizes=Counter(resizes.verdicts),
                resize_pause_s=resizes.pause_s.copy(),
                resize_saved_s=resizes.saved_s,
                resize_lost_s=resizes.lost_s,
                device_s=dict(self._device_time.device_s),
                node_losses=Counter(self._nodes.losses),
                events=Counter(jobs.events),
                stories=Counter(jobs.stories),
                journal_s=self._journal_s.copy(),
                decision_s=self._decision_s.copy(),
                turn_s=self._turn_s.copy(),
            )
