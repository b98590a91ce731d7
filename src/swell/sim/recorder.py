"""What a simulated run shows: jobs that ended, who used how much when, and each line of their stories."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from swell.core.platform_core import PlatformCore
from swell.model.event import AnyEvent
from swell.model.view import JobView, Story
from swell.sim.gangs import SimGangs
from swell.sim.outcome import Usage


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
    def end_turn(self, now_s: float, gangs: SimGangs) -> None:
        if self._begun_s is not None:
            self.decision_s.append(time.process_time() - self._begun_s)
            self._begun_s = None
        for view in self._core.ended_views(self._with_offers):
            self._keep(view)
        if gangs.version != self._version:
            self._version = gangs.version
            self._usage.extend((now_s, *gangs.usage()))

    def _remember(self, view: JobView) -> None:
        self.ended.setdefault(view.id, view)

    def usage(self) -> Usage:
        columns = np.array(self._usage).reshape(-1, 3).T
        return Usage(*columns)


class EventLog:
    """Keeps every line of every job's story, and each job as it was at its end.

    Lines are written out where they are kept: a run without this log does not pay for them.
    """

    def __init__(self) -> None:
        self.stories: list[tuple[str, Story]] = []  #: (job id, line), in order of time
        self._ended: dict[str, JobView] = {}

    def listen(self, core: PlatformCore) -> None:
        """Collect the head's new story lines and the jobs that have ended. To be called after each turn."""
        self.stories += core.stories()
        self._ended |= {view.id: view for view in core.ended_views()}

    def jobs(self, core: PlatformCore) -> list[JobView]:
        """All that the head has known, those last that are open at the end of the run."""
        return [*self._ended.values(), *core.views()]
