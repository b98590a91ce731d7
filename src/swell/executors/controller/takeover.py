"""A controller that starts again: takes over what hosts have kept, and ends what cannot be taken over.

A run is whole when all hosts have told of it that its newest record names, but those that are gone. It is
taken over then, and no other run is waited for. Until all are, no daemon is told anything: what is not in the
inventory a daemon takes for lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from swell.executors.controller.directed_runs import DirectedRuns
from swell.executors.controller.known_hosts import NOTHING_OFFERED, KnownHosts
from swell.executors.exit_status import HOST_LOST
from swell.executors.gang.effects import KILL, Effect, WorkerExit
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import read_record
from swell.executors.hosts.messages import (
    CloseRun,
    Dealings,
    DevicesOffered,
    EndKept,
    FromHost,
    KeptWorker,
    OpenRun,
    RunKept,
    RunSnapshot,
    SignalWorker,
    WorkerKept,
)
from swell.model.command import LaunchGang
from swell.model.event import GangEnded, GangSuspended
from swell.model.target import Target

#: Messages about a run on a host that wait until it is taken over; those of a minute are a tenth of that.
MOST_LATER = 10_000


@dataclass(slots=True)
class KeptRun:
    """A run on one host, as that has told of it."""

    told: RunKept
    is_late: bool  #: nobody has waited for it, so it is not known to be of any gang
    workers: dict[int, KeptWorker] = field(default_factory=dict)

    @property
    def live(self) -> set[int]:
        """Workers that have not ended."""
        return {number for number, worker in self.workers.items() if worker.exit is None}


@dataclass(frozen=True, slots=True)
class WholeRun:
    """A run to be taken over, as its hosts have told of it."""

    record: RunSnapshot
    kept: dict[str, KeptRun]  #: by host; of those in the record that are here

    @property
    def workers(self) -> dict[int, KeptWorker]:
        """Those of the record of which a host tells."""
        told = (worker for kept in self.kept.values() for worker in kept.workers.values())
        return {worker.number: worker for worker in told if worker.number in self.record.workers}

    @property
    def is_sound(self) -> bool:
        """Whether nothing runs of which the record does not tell."""
        return all(kept.live <= self.record.workers.keys() for kept in self.kept.values())

    @property
    def lost(self) -> set[int]:
        """Workers whose hosts are gone, and those that no host was told to start, because none could."""
        told, own = self.record.dealings, self.record.workers.items()
        return {number for number, host in own if host not in self.kept or number not in told}

    @property
    def num_heard(self) -> dict[int, int]:
        """Messages of workers that the gang of the record knows of."""
        return {number: dealings.num_heard for number, dealings in self.record.dealings.items()}

    @property
    def hosts_of_workers(self) -> dict[int, str]:
        """Those that live, or were to be started, by host."""
        workers, gone = self.workers, self.lost
        ended = {number for number, worker in workers.items() if worker.exit is not None}
        own = self.record.workers.items()
        return {number: host for number, host in own if number not in gone | ended}

    @property
    def dealings(self) -> dict[int, Dealings]:
        """What has passed between the controller and these workers, once they have all been heard. The orders
        in it have not come to their hosts.
        """
        up_to_date, workers = {}, self.workers
        for number in self.hosts_of_workers:
            worker, known = workers.get(number), self.record.dealings[number]
            up_to_date[number] = Dealings(
                num_heard=0 if worker is None else worker.num_said,
                num_orders=known.num_orders,
                orders=tuple(o for o in known.orders if worker is None or o.number > worker.num_orders),
            )
        return up_to_date


@dataclass(slots=True)
class Takeover:
    """Begins with hosts on which workers of the former controller may run; ends once all are known.

    Its owner hands on what hosts tell of the time before, and asks `is_over` before it greets a daemon. What
    one host has of a run that cannot be taken over is abandoned: its workers are killed, then it is closed.
    """

    runs: DirectedRuns
    hosts: KnownHosts
    again: Callable[[str, FromHost], None]  #: handles what a host says, after what is being handled now
    awaited: set[str] = field(default_factory=set)  #: hosts that have yet to come, or to be given up
    _kept: dict[str, dict[str, KeptRun]] = field(default_factory=dict)  #: by run and host
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
            case RunKept(order=OpenRun(run=key)):
                self._kept.setdefault(key, {})[host] = KeptRun(message, self.is_over)
                self._later[host, key] = []
            case WorkerKept(run=key, worker=worker):
                if (copy := self._kept.get(key, {}).get(host)) is not None:
                    copy.workers[worker.number] = worker

    def keep(self, host: str, message: FromHost) -> bool:
        """Whether it is about a run that is not taken over yet: it is heard afterwards."""
        if isinstance(message, WorkerKept):
            return False
        later = self._later.get((host, getattr(message, "run", "")))
        if later is not None and len(later) < MOST_LATER:
            later.append(message)
        return later is not None

    def hear_offer(self, host: str, offered: DevicesOffered) -> None:
        """It is the last word about what was: no run waits for this host any longer. Devices are not used
        while something runs there that is not directed, if a daemon may ask for them already.
        """
        if self.is_over:
            self._offers[host] = offered
        else:
            self._use(host, offered)
        self.awaited.discard(host)
        self.go_on()

    def _use(self, host: str, offered: DevicesOffered) -> None:
        self.runs.report_all(self.hosts.offer(host, offered))

    def is_abandoned(self, host: str, key: str) -> bool:
        """Whether this run on this host is being ended."""
        return (host, key) in self._abandoned

    def hear_exit(self, host: str, key: str, worker: int) -> None:
        """Record the exit of a worker of a run that `is_abandoned`."""
        self._abandoned[host, key].discard(worker)
        self.go_on()

    def leave_workers(self, host: str, key: str, workers: Iterable[int], why: str) -> None:
        """A gang goes on without these. They are killed once their host can be told; what it offers is
        not used before they are gone.
        """
        self._offers.setdefault(host, self.hosts.offered(host))  # what it has said since counts
        self.runs.report_all(self.hosts.offer(host, NOTHING_OFFERED, why))
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
        for key, whole in self._take_whole():
            is_late = any(copy.is_late for copy in whole.kept.values())
            if whole.is_sound and not is_late and not self._is_elsewhere(key, whole.record):
                self._take_over(whole)
            else:
                for host, copy in whole.kept.items():
                    self._abandon(host, copy)
        for host, key in [place for place, left in self._abandoned.items() if not left]:
            del self._abandoned[host, key]
            self.hosts.tell(host, CloseRun(run=key))
        for host in [host for host in self._offers if not self._has_abandoned(host)]:
            self._use(host, self._offers.pop(host))
        for host, key in [place for place in self._later if place[0] not in self._kept.get(place[1], ())]:
            for message in self._later.pop((host, key)):
                self.again(host, message)
        if self.is_over:
            ends, self._ends = self._ends, {}
            for job_id, end in ends.items():
                if self.runs.gang(job_id) is None:
                    self.runs.report(end)

    def _take_whole(self) -> Iterator[tuple[str, WholeRun]]:
        """Runs that can be taken over now, each once. What no gang will claim is abandoned."""
        for key, kept in list(self._kept.items()):
            newest = _newest(kept.values())
            is_trial = any(copy.told.order.is_trial for copy in kept.values())
            missing = self.awaited if newest is None else self.awaited.intersection(newest.hosts)
            if missing and not is_trial:
                continue
            del self._kept[key]
            own = {host: copy for host, copy in kept.items() if _belongs(host, copy, newest)}
            for host in kept.keys() - own.keys():
                self._abandon(host, kept[host])
            if newest is not None:
                yield key, WholeRun(newest, own)

    def _is_elsewhere(self, key: str, record: RunSnapshot) -> bool:
        """Whether the gang was taken over, or has ended, without those who tell of this record.

        It had left them, or has been taken over by an older record: it does not know of them.
        """
        end = self._ends.get(key)
        return self.runs.gang(key) is not None or (end is not None and end.generation >= record.launch)

    def _take_over(self, whole: WholeRun) -> None:
        order, record = next(iter(whole.kept.values())).told.order, whole.record
        launch = LaunchGang(
            job_id=order.job_id,
            generation=record.launch,
            target=Target(devices=()),
            spec=order.spec,
            total_steps=record.total_steps,
        )
        known = read_record(record.gang)
        opened = {host: kept.told.opened for host, kept in whole.kept.items()}
        run, gang = self.runs.begin_gang(launch, known, opened)
        for slot in (*known.wanted_slots, *(member.slot for member in known.members.values())):
            self.runs.claim(run.job_id, slot)
        run.record, run.workers, run.dealings = record, whole.hosts_of_workers, whole.dealings
        effects = take_over(gang, whole.workers, whole.lost, whole.num_heard, self.runs.now_s())
        for number, host in run.workers.items():
            for order_to_worker in run.dealings[number].orders:
                self.hosts.tell(host, order_to_worker)
        self.runs.do(run, effects, is_kept=True)

    def _abandon(self, host: str, copy: KeptRun) -> None:
        self._kill(host, copy.told.order.run, copy.live)

    def _kill(self, host: str, key: str, workers: set[int]) -> None:
        self._abandoned[host, key] = workers
        for worker in sorted(workers):
            self.hosts.tell(host, SignalWorker(run=key, worker=worker, signal=KILL))

    def _has_abandoned(self, host: str) -> bool:
        """Whether something still runs there that has no director."""
        return any(of == host for of, _ in self._abandoned)


def _newest(kept: Iterable[KeptRun]) -> RunSnapshot | None:
    records = [copy.told.record for copy in kept if copy.told.record is not None]
    return max(records, key=lambda record: (record.launch, record.version), default=None)


def _belongs(host: str, copy: KeptRun, newest: RunSnapshot | None) -> bool:
    """Whether this host's part is of the gang of the newest record, and not of one before it."""
    if newest is None or host not in newest.hosts:
        return False
    return copy.told.record is None or copy.told.record.launch == newest.launch


def take_over(
    gang: GangController,
    kept: Mapping[int, KeptWorker],
    lost: Collection[int],
    num_heard: Mapping[int, int],
    now_s: float,
) -> list[Effect]:
    """Go on with a former controller's gang. Call it before any other method of the gang.

    Its record was written before what follows from it was done. So it may tell of orders that have not
    arrived, which are given again (`WholeRun.dealings`), and know nothing of what came after it, of which
    nothing followed then: that is heard as if it came now. A gang that is whole trains on, told nothing.

    Args:
        kept: what hosts tell of workers. One that is missing was never started, and is started now.
        lost: workers whose hosts are gone, or that have none.
        num_heard: how many of a worker's messages the gang knows of.
    """
    effects = gang.take_over(now_s)
    for number, worker in kept.items():
        gang.halted(number, worker.is_stopped)
        if worker.pid is not None:
            effects += gang.forked(number, worker.pid, now_s)
    for number, worker in kept.items():
        for message in worker.unheard(num_heard.get(number, 0)):
            effects += gang.said(number, message, now_s)
    for number, worker in kept.items():
        if worker.reported is not None:
            effects += gang.hear_again(number, worker.reported, now_s)
    why = "its host was lost together with the controller, or none could start it"
    exits = [WorkerExit(number, HOST_LOST, why) for number in lost]
    exits += [WorkerExit(w.number, w.exit.status, w.exit.log_tail) for w in kept.values() if w.exit]
    return effects + gang.exited_together(exits, now_s)
