"""A controller that starts again: takes over gangs that hosts run, and ends what belongs to none.

It begins when all hosts have told what they know that may run any worker, but those that are gone. A gang is
taken over once none of its workers is left that is not of the settled gang. Trial runs, and gangs that have
not started, are ended. Until then no daemon is told anything: what is not in the inventory it takes for lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from swell.executors.controller.directed_runs import DirectedRuns
from swell.executors.controller.known_hosts import KnownHosts
from swell.executors.gang.gang_record import GangRecord, SettledGang
from swell.executors.gang.host_messages import (
    KILL,
    CloseRun,
    DevicesOffered,
    EndKept,
    FromHost,
    KeptRuns,
    RunKept,
    SignalWorker,
    WorkerExited,
)
from swell.model.event import GangEnded, GangSuspended


@dataclass(slots=True)
class Takeover:
    """Begins with hosts on which workers of the former controller may run; ends once all are known.

    Its owner hands on what hosts tell of the time before, and asks `is_over` before it greets a daemon. What
    one host has of a run that is not taken over is abandoned: its workers are killed, then it is closed.
    """

    runs: DirectedRuns
    hosts: KnownHosts
    awaited: set[str] = field(default_factory=set)  #: hosts that have yet to come, or to be given up
    _kept: dict[str, KeptRuns] = field(default_factory=dict)  #: by host, until its runs are taken over
    _abandoned: dict[tuple[str, str], set[int]] = field(default_factory=dict)  #: workers, by host and run
    _ends: dict[str, GangEnded | GangSuspended] = field(default_factory=dict)  #: by job
    _is_over: bool = False

    @property
    def is_over(self) -> bool:
        """Every host has told, or is gone, and all that runs is directed."""
        self._is_over = self._is_over or not (self.awaited or self._kept or self._abandoned)
        return self._is_over

    # ------------------------------------------------------------ what hosts tell
    def hear(self, host: str, message: RunKept | EndKept) -> None:
        """Record what a host has kept from the time before this controller."""
        if isinstance(message, RunKept):
            self._kept.setdefault(host, KeptRuns()).runs[message.order.run] = message
            return
        known = self._ends.get(message.end.job_id)  # several hosts may tell of the same job
        if known is None or known.generation < message.end.generation:
            self._ends[message.end.job_id] = message.end

    def keep(self, host: str, message: FromHost) -> bool:
        """Whether it is about a run that is not taken over yet."""
        kept = self._kept.get(host)
        if kept is None or getattr(message, "run", None) not in kept.runs:
            return False
        kept.note_answered(message)
        if isinstance(message, WorkerExited):
            self.go_on()
        return True

    def hear_offer(self, host: str, offered: DevicesOffered) -> None:
        """It is the last word about what was: no run waits for this host any longer."""
        self.runs.report_all(self.hosts.offer(host, offered))
        self.awaited.discard(host)
        self.go_on()

    def is_abandoned(self, host: str, key: str) -> bool:
        """Whether this run on this host is being ended."""
        return (host, key) in self._abandoned

    def hear_exit(self, host: str, key: str, worker: int) -> None:
        """Record the exit of a worker of a run that `is_abandoned`."""
        self._abandoned[host, key].discard(worker)
        self.go_on()

    def lose_host(self, host: str) -> None:
        """No worker is left there; the owner hears of it afterwards."""
        self._kept.pop(host, None)
        self.awaited.discard(host)
        self._abandoned = {place: left for place, left in self._abandoned.items() if place[0] != host}
        self.go_on()

    # ------------------------------------------------------------ what follows
    def go_on(self) -> None:
        """Take over what is known by now, and end what is not to be."""
        is_late = self.is_over  # nobody has waited for it, so it is not known to be of any gang
        keys = [] if self.awaited else [key for kept in self._kept.values() for key in kept.runs]
        for key in dict.fromkeys(keys):
            self._settle(key, is_late)
        self._kept = {host: kept for host, kept in self._kept.items() if kept.runs}
        for host, key in [place for place, left in self._abandoned.items() if not left]:
            del self._abandoned[host, key]
            self.hosts.tell(host, CloseRun(run=key))
        if self.is_over:
            ends, self._ends = self._ends, {}
            for job_id, end in ends.items():
                if self.runs.gang(job_id) is None:
                    self.runs.report(end)

    def _settle(self, key: str, is_late: bool) -> None:
        kept = {host: runs.runs[key] for host, runs in self._kept.items() if key in runs.runs}
        settled = [run.gang for run in kept.values() if run.gang is not None]
        newest = max(settled, key=lambda gang: (gang.launch, gang.version), default=None)
        end = self._ends.get(key)
        if is_late or (newest and end and end.generation >= newest.launch):
            newest = None
        own = set() if newest is None else newest.workers.keys()
        strangers = [(host, each.live - own) for host, each in kept.items()]
        if newest is not None and any(workers for _, workers in strangers):
            for host, workers in strangers:
                self._kill(host, key, workers)
            return
        for host in kept:
            del self._kept[host].runs[key]
        if newest is not None:
            self._take_over(newest, kept)
        else:
            for host, workers in strangers:
                self._abandon(host, key, workers)

    def _take_over(self, settled: SettledGang, kept: Mapping[str, RunKept]) -> None:
        order = next(iter(kept.values())).order
        job = self.runs.job_context(order.job_id, order.spec, order.total_steps)
        gang = GangRecord(**msgspec.structs.asdict(settled))
        run, director = self.runs.begin_gang(job, gang, {host: each.opened for host, each in kept.items()})
        for host, each in kept.items():
            run.workers |= dict.fromkeys(each.live, host)
        facts = {number: one for each in kept.values() for number, one in each.workers.items()}
        known = {number: one for number, one in facts.items() if number in settled.workers}
        self.runs.do(run, director.take_over(known, self.runs.now_s()))

    def _abandon(self, host: str, key: str, workers: set[int]) -> None:
        self._abandoned[host, key] = workers
        self._kill(host, key, workers)

    def _kill(self, host: str, key: str, workers: set[int]) -> None:
        for worker in sorted(workers):
            self.hosts.tell(host, SignalWorker(run=key, worker=worker, signal=KILL))
