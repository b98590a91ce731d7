"""A controller that starts again: takes over what hosts have kept, and ends what cannot be taken over.

A run is whole when all hosts have told of it that its newest record names, but those that are gone. It is
taken over then, and no other run is waited for. Until all are, no daemon is told anything: what is not in the
inventory a daemon takes for lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from swell.executors.controller.directed_runs import DirectedRuns
from swell.executors.controller.gangs import KnownGangs
from swell.executors.controller.known_hosts import KnownHosts
from swell.executors.controller.run import WholeRun, take_over
from swell.executors.gang.effects import KILL
from swell.executors.hosts.messages import (
    CloseRun,
    DevicesOffered,
    EndKept,
    FromHost,
    RunKept,
    RunSnapshot,
    SignalWorker,
    WorkerKept,
)
from swell.model.event import GangEnded, GangSuspended

#: Messages about a run on a host that wait until it is taken over; those of a minute are a tenth of that.
MOST_LATER = 10_000


@dataclass(slots=True)
class Takeover:
    """Begins with hosts on which workers of the former controller may run; ends once all are known.

    Its owner hands on what hosts tell of the time before, and asks `is_over` before it greets a daemon. What
    one host has of a run that cannot be taken over is abandoned: its workers are killed, then it is closed.
    """

    runs: DirectedRuns
    hosts: KnownHosts
    gangs: KnownGangs
    offer: Callable[[str, DevicesOffered], None]  #: has these devices of a host used from now on
    again: Callable[[str, FromHost], None]  #: handles what a host says, after what is being handled now
    awaited: set[str] = field(default_factory=set)  #: hosts that have yet to come, or to be given up
    _kept: dict[str, dict[str, RunKept]] = field(default_factory=dict)  #: by run and host
    _abandoned: dict[tuple[str, str], set[int]] = field(default_factory=dict)  #: workers, by host and run
    _later: dict[tuple[str, str], list[FromHost]] = field(default_factory=dict)  #: by host and run
    _offers: dict[str, DevicesOffered] = field(default_factory=dict)  #: by host; they have to wait
    _ends: dict[str, GangEnded | GangSuspended] = field(default_factory=dict)  #: by job
    _is_over: bool = False

    @property
    def is_over(self) -> bool:
        """Every host has told, or is gone, and all that runs is directed."""
        self._is_over = self._is_over or not (self.awaited or self._kept or self._abandoned)
        return self._is_over

    # ------------------------------------------------------------ what hosts tell
    def hear(self, host: str, message: RunKept | WorkerKept | EndKept) -> None:
        """Record what a host has kept from the time before this controller."""
        match message:
            case EndKept(end=end):  # several hosts may tell of the same job; the latest gang counts
                known = self._ends.get(end.job_id)
                if known is None or known.generation < end.generation:
                    self._ends[end.job_id] = end
            case WorkerKept(run=key, worker=told):
                if (copy := self._kept.get(key, {}).get(host)) is not None:
                    workers = tuple(told if one.number == told.number else one for one in copy.workers)
                    self._kept[key][host] = msgspec.structs.replace(copy, workers=workers)
            case RunKept() if self.is_over:  # it was not waited for: its run is not known to be of any gang
                self._abandon(host, message)
            case RunKept(order=order):
                self._kept.setdefault(order.run, {})[host] = message
                self._later[host, order.run] = []

    def keep(self, host: str, message: FromHost) -> bool:
        """Whether it is about a run that is not taken over yet: it is heard afterwards."""
        if isinstance(message, WorkerKept):
            return False
        later = self._later.get((host, getattr(message, "run", "")))
        if later is not None and len(later) < MOST_LATER:
            later.append(message)
        return later is not None

    def hear_all_kept(self, host: str) -> None:
        """It has told what was: no run waits for it any longer."""
        self.awaited.discard(host)
        self.go_on()

    def hear_offer(self, host: str, offered: DevicesOffered) -> None:
        """It is the last word about what was. Devices are not used while something runs there that is not
        directed, if a daemon may ask for them already.
        """
        if self.is_over and self._has_abandoned(host):
            self._offers[host] = offered
        else:
            self.offer(host, offered)
        self.hear_all_kept(host)

    def is_abandoned(self, host: str, key: str) -> bool:
        """Whether this run on this host is being ended."""
        return (host, key) in self._abandoned

    def hear_exit(self, host: str, key: str, worker: int) -> None:
        """Record the exit of a worker of a run that `is_abandoned`."""
        self._abandoned[host, key].discard(worker)
        self.go_on()

    def leave_workers(self, host: str, key: str, workers: Iterable[int], offered: DevicesOffered) -> None:
        """A gang goes on without these. They are killed once their host can be told; what it offers is
        not used before they are gone.
        """
        self._offers.setdefault(host, offered)  # what it has said since counts
        self._kill(host, key, set(workers))
        self.go_on()

    def lose_host(self, host: str) -> None:
        """No worker is left there; the owner hears of it afterwards."""
        self._offers.pop(host, None)
        self.awaited.discard(host)
        for kept in self._kept.values():
            kept.pop(host, None)
        self._kept = {key: kept for key, kept in self._kept.items() if kept}
        self._later = {place: later for place, later in self._later.items() if place[0] != host}
        self._abandoned = {place: left for place, left in self._abandoned.items() if place[0] != host}
        self.go_on()

    # ------------------------------------------------------------ what follows
    def go_on(self) -> None:
        """Take over what is whole, and end what will not be."""
        for whole in self._take_whole():
            known = self.gangs.get(whole.key)
            # Where it is known, a host with an older record came first, and its gang does not know of these.
            if whole.is_sound and (known is None or known.is_over):
                self._take_over(whole)
            else:
                for host, copy in whole.kept.items():
                    self._abandon(host, copy)
        for host, key in [place for place, left in self._abandoned.items() if not left]:
            del self._abandoned[host, key]
            self.hosts.tell(host, CloseRun(run=key))
        for host in [host for host in self._offers if not self._has_abandoned(host)]:
            self.offer(host, self._offers.pop(host))
        for host, key in [place for place in self._later if place[0] not in self._kept.get(place[1], ())]:
            for message in self._later.pop((host, key)):
                self.again(host, message)
        if self.is_over:
            ends, self._ends = self._ends, {}
            for job_id, end in ends.items():
                if self.gangs.get(job_id) is None:
                    self.runs.report(end)

    def _take_whole(self) -> Iterator[WholeRun]:
        """Runs that can be taken over now, each once. What no gang will claim is abandoned."""
        for key, kept in list(self._kept.items()):
            newest = _newest(kept.values())
            is_trial = any(copy.order.is_trial for copy in kept.values())
            missing = self.awaited if newest is None else self.awaited.intersection(newest.hosts)
            if missing and not is_trial:
                continue
            del self._kept[key]
            own = {host: copy for host, copy in kept.items() if _belongs(host, copy, newest)}
            for host in kept.keys() - own.keys():
                self._abandon(host, kept[host])
            if newest is not None:
                yield WholeRun(key, newest, own)

    def _take_over(self, whole: WholeRun) -> None:
        run = self.gangs.adopt(whole)
        gang = run.gang
        assert gang is not None  # noqa: S101 - it was just adopted
        self.runs.begin_run(run)
        effects = take_over(gang, whole.workers, whole.lost, whole.num_heard, self.runs.now_s())
        for number, host in run.workers.items():
            for order in run.dealings[number].orders:
                self.hosts.tell(host, order)
        self.runs.do(run, effects, is_kept=True)

    def _abandon(self, host: str, copy: RunKept) -> None:
        self._kill(host, copy.order.run, {worker.number for worker in copy.workers if worker.exit is None})

    def _kill(self, host: str, key: str, workers: set[int]) -> None:
        self._abandoned[host, key] = workers
        for worker in sorted(workers):
            self.hosts.tell(host, SignalWorker(run=key, worker=worker, signal=KILL))

    def _has_abandoned(self, host: str) -> bool:
        """Whether something still runs there that has no director."""
        return any(of == host for of, _ in self._abandoned)


def _newest(kept: Iterable[RunKept]) -> RunSnapshot | None:
    records = [copy.record for copy in kept if copy.record is not None]
    return max(records, key=lambda record: (record.launch, record.version), default=None)


def _belongs(host: str, copy: RunKept, newest: RunSnapshot | None) -> bool:
    """Whether this host's part is of the gang of the newest record, and not of one before it."""
    if newest is None or host not in newest.hosts:
        return False
    return copy.record is None or copy.record.launch == newest.launch
