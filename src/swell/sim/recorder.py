"""Keeps what a simulated run shows: jobs that ended, and who used how much when."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from swell.core.platform_core import PlatformCore
from swell.model.event import AnyEvent
from swell.model.view import JobView
from swell.sim.outcome import Usage
from swell.sim.usage_tally import UsageTally


class TurnRecorder:
    """Stands where the journal stands in a live platform; and sees each turn's end.

    Args:
        note_end: is told of each job that has ended; without it they are in `ended`.

    The time that the head takes is measured between the two: it is what is shown of a run that differs
    from one run to the next, and nothing depends on it.
    """

    def __init__(
        self, core: PlatformCore, note_end: Callable[[JobView], None] | None = None, with_offers: bool = True
    ) -> None:
        self._core, self._with_offers = core, with_offers
        self.ended: dict[str, JobView] = {}
        self.decision_s = array("d")
        self._keep = note_end or self._remember
        self._begun_s: float | None = None
        self._usage = array("d")  #: three numbers an entry
        self._version = -1

    # ------------------------------------------------------------ as a journal
    def append(self, batch: Sequence[AnyEvent]) -> None:
        self._begun_s = time.process_time()

    def replay(self) -> Iterable[Sequence[AnyEvent]]:
        return ()

    # ------------------------------------------------------------ as an observer
    def end_turn(self, now_s: float, tally: UsageTally, version: int) -> None:
        """`version` changes whenever who trains on what does."""
        if self._begun_s is not None:
            self.decision_s.append(time.process_time() - self._begun_s)
            self._begun_s = None
        for view in self._core.ended_views(self._with_offers):
            self._keep(view)
        if version != self._version:
            self._version = version
            self._usage.extend((now_s, tally.num_devices, tally.speedup))

    def _remember(self, view: JobView) -> None:
        self.ended.setdefault(view.id, view)

    def usage(self) -> Usage:
        columns = np.array(self._usage).reshape(-1, 3).T
        return Usage(*columns)
