"""What the daemon is told of runs, and what follows from it on their hosts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from swell.executors.controller.known_hosts import KnownHosts
from swell.executors.controller.outbox import Outbox
from swell.executors.controller.run import DirectedRun
from swell.executors.hosts import messages
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangResized,
    GangStarted,
    Outcome,
    ResizeFailed,
    StepsReported,
    WorkersLost,
)

#: The usage of a gang which has told of nothing else for so long is told by itself.
TELL_EVERY_S = 10.0


class RunReports:
    """Sends the daemon the events of runs, in order. A report of progress tells what its gang has used."""

    def __init__(
        self,
        now_s: Callable[[], float],
        hosts: KnownHosts,
        runs: Mapping[str, DirectedRun],
        outbox: Outbox,
    ) -> None:
        """`runs`: kept up to date."""
        self._now_s, self._hosts, self._runs = now_s, hosts, runs
        self._outbox = outbox

    def report_all(self, events: Iterable[AnyEvent]) -> None:
        for event in events:
            self.report(event)

    def report(self, event: AnyEvent) -> None:
        """Protocols of gangs go by a clock that stands still in a machine's sleep; the head's does not."""
        run = self._runs.get(getattr(event, "job_id", ""))
        if run is not None:
            self._act_on(run, event)
        event = msgspec.structs.replace(event, at_s=time.clock_gettime(time.CLOCK_BOOTTIME))
        if run is not None and isinstance(event, StepsReported):
            event = msgspec.structs.replace(event, usage=run.total_usage)
        self._outbox.add(event)
        if run is not None and isinstance(event, GangStarted | GangResized | StepsReported):
            run.reported_s = self._now_s()

    def _act_on(self, run: DirectedRun, event: AnyEvent) -> None:
        """What follows on the hosts of a gang from what is told of it."""
        gang = run.gang
        if gang is None:
            return
        if isinstance(event, ResizeFailed | WorkersLost) and event.generation == gang.generation:
            # A change is off, and its share is taken back.
            share = gang.gang.wanted_configuration.weight
            self._hosts.tell_all(run.hosts, messages.SetShare(run=run.key, share=share))
        if isinstance(event, GangEnded) and event.outcome is Outcome.SUCCEEDED:
            self._hosts.tell(min(run.hosts), messages.DropCode(job_id=run.job_id))

    def report_silent(self, run: DirectedRun) -> None:
        """Tell what a gang has used that has told of nothing else for long: its script tells nothing."""
        is_silent = run.reported_s is not None and self._now_s() - run.reported_s >= TELL_EVERY_S
        if is_silent and run.gang is not None and run.total_usage is not None:
            generation, steps = run.gang.generation, run.gang.steps
            self.report(
                StepsReported(at_s=0.0, job_id=run.job_id, generation=generation, steps=steps, num_workers=0)
            )
