"""What hosts have kept of the runs of a controller that is no more: which can be taken over, and which not.

A run is whole when all hosts have told of it that its newest record names, but those that are gone. It is
taken over then, and no other run is waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from swell.executors.gang.kept_worker import KeptWorker
from swell.executors.hosts.messages import Dealings, FromHost, RunKept, RunSnapshot, WorkerKept
from swell.model.event import GangEnded, GangSuspended

#: Messages about a run on a host that wait until it is taken over; those of a minute are a tenth of that.
MOST_LATER = 10_000


@dataclass(frozen=True, slots=True)
class WholeRun:
    """A run to be taken over."""

    key: str
    record: RunSnapshot
    kept: dict[str, RunKept]  #: by host; of those in the record that are here

    @property
    def workers(self) -> dict[int, KeptWorker]:
        """Those of the record of which a host tells."""
        told = (worker for kept in self.kept.values() for worker in kept.workers)
        return {worker.number: worker for worker in told if worker.number in self.record.workers}

    @property
    def lost(self) -> set[int]:
        """Workers whose hosts are gone."""
        return {number for number, host in self.record.workers.items() if host not in self.kept}

    @property
    def num_heard(self) -> dict[int, int]:
        """Messages of workers that the gang of the record knows of."""
        return {number: dealings.num_heard for number, dealings in self.record.dealings.items()}

    @property
    def hosts_of_workers(self) -> dict[int, str]:
        """Those that live, or were to be started, by host."""
        ended = {number for number, worker in self.workers.items() if worker.exit is not None}
        own = self.record.workers.items()
        return {number: host for number, host in own if host in self.kept and number not in ended}

    @property
    def dealings(self) -> dict[int, Dealings]:
        """What has passed between the controller and these workers, once they have all been heard. The orders
        in it have not come to their hosts.
        """
        up_to_date = {}
        for number in self.hosts_of_workers:
            worker, known = self.workers.get(number), self.record.dealings[number]
            up_to_date[number] = Dealings(
                num_heard=0 if worker is None else worker.num_said,
                num_orders=known.num_orders,
                orders=[o for o in known.orders if worker is None or o.number > worker.num_orders],
            )
        return up_to_date

    @property
    def is_sound(self) -> bool:
        """Whether nothing runs of which the record does not tell."""
        told = (worker for kept in self.kept.values() for worker in kept.workers)
        return all(worker.number in self.record.workers for worker in told if worker.exit is None)


@dataclass(slots=True)
class AbandonedRun:
    """What one host has of a run that cannot be taken over: its workers are killed, then it is closed."""

    host: str
    key: str
    workers: set[int]  #: that have not ended
    is_killed: bool = False


@dataclass(slots=True)
class Takeover:
    """Begins with hosts on which workers of the former controller may run; ends once all are known."""

    awaited: set[str] = field(default_factory=set)
    _kept: dict[str, dict[str, RunKept]] = field(default_factory=dict)  #: by run and host
    _abandoned_runs: dict[tuple[str, str], AbandonedRun] = field(default_factory=dict)  #: by host and run
    _later: dict[tuple[str, str], list[FromHost]] = field(default_factory=dict)  #: by host and run
    _ends: dict[str, GangEnded | GangSuspended] = field(default_factory=dict)  #: by job
    _is_over: bool = False

    @property
    def is_over(self) -> bool:
        """Every host has told, or is gone, and all that runs is directed."""
        self._is_over = self._is_over or not (self.awaited or self._kept or self._abandoned_runs)
        return self._is_over

    # ------------------------------------------------------------ what hosts tell
    def note(self, host: str, kept: RunKept) -> None:
        """Record what a host has kept of a run. Call it before `settle`."""
        self._kept.setdefault(kept.order.run, {})[host] = kept
        self._later[host, kept.order.run] = []

    def note_worker(self, host: str, told: WorkerKept) -> None:
        """What a worker of a run has said that the host has told of, by `note`."""
        copies = self._kept.get(told.run, {})
        if (copy := copies.get(host)) is not None:
            workers = tuple(
                told.worker if worker.number == told.worker.number else worker for worker in copy.workers
            )
            copies[host] = msgspec.structs.replace(copy, workers=workers)

    def note_end(self, end: GangEnded | GangSuspended) -> None:
        """Several hosts may tell of the same job; the latest gang counts."""
        known = self._ends.get(end.job_id)
        if known is None or known.generation < end.generation:
            self._ends[end.job_id] = end

    def settle(self, host: str) -> None:
        """It has told all that it has kept."""
        self.awaited.discard(host)

    def keep(self, host: str, message: FromHost) -> bool:
        """Whether it is about a run that is not taken over yet: it is to be heard afterwards."""
        later = self._later.get((host, getattr(message, "run", "")))
        if later is not None and len(later) < MOST_LATER:
            later.append(message)
        return later is not None

    def take_later(self) -> list[tuple[str, FromHost]]:
        """What can be heard now, by host."""
        ready = [(host, key) for host, key in self._later if host not in self._kept.get(key, ())]
        return [(host, message) for host, key in ready for message in self._later.pop((host, key))]

    def lose(self, host: str) -> None:
        """No worker of it is left, and none will come."""
        self.awaited.discard(host)
        for kept in self._kept.values():
            kept.pop(host, None)
        self._kept = {key: kept for key, kept in self._kept.items() if kept}
        self._later = {key: later for key, later in self._later.items() if key[0] != host}
        self._abandoned_runs = {
            key: abandoned_run
            for key, abandoned_run in self._abandoned_runs.items()
            if abandoned_run.host != host
        }

    def take_ends(self) -> list[GangEnded | GangSuspended]:
        """Ends that may not have been told, each once."""
        ends, self._ends = list(self._ends.values()), {}
        return ends

    # ------------------------------------------------------------ what follows
    def take_whole(self) -> Iterator[WholeRun]:
        """Runs that can be taken over now, each once. What no gang will claim is an abandoned run."""
        for key, kept in list(self._kept.items()):
            newest = _newest(kept.values())
            if newest is None:
                if not self.awaited or _is_trial(kept.values()):
                    self.leave(self._kept.pop(key))
            elif not self.awaited.intersection(newest.hosts):
                del self._kept[key]
                own = {host: copy for host, copy in kept.items() if _belongs(host, copy, newest)}
                self.leave({host: copy for host, copy in kept.items() if host not in own})
                yield WholeRun(key, newest, own)

    def leave(self, kept: Mapping[str, RunKept]) -> None:
        """No director takes these over; by host."""
        for host, copy in kept.items():
            live = {worker.number for worker in copy.workers if worker.exit is None}
            self._abandoned_runs[host, copy.order.run] = AbandonedRun(host, copy.order.run, live)

    def leave_workers(self, host: str, key: str, workers: Iterable[int]) -> None:
        """These have no director any more."""
        self._abandoned_runs[host, key] = AbandonedRun(host, key, set(workers))

    # ------------------------------------------------------------ abandoned runs
    @property
    def abandoned_runs(self) -> Collection[AbandonedRun]:
        return self._abandoned_runs.values()

    def has_remnants(self, host: str) -> bool:
        """Whether something still runs there that has no director."""
        return any(abandoned_run.host == host for abandoned_run in self._abandoned_runs.values())

    def is_remnant(self, host: str, key: str) -> bool:
        return (host, key) in self._abandoned_runs

    def note_exit(self, host: str, key: str, worker: int) -> None:
        """Record the exit of a worker of an abandoned run."""
        self._abandoned_runs[host, key].workers.discard(worker)

    def take_ended(self) -> list[AbandonedRun]:
        """Those of which nothing is left: to be closed."""
        ended = [
            abandoned_run for abandoned_run in self._abandoned_runs.values() if not abandoned_run.workers
        ]
        for abandoned_run in ended:
            del self._abandoned_runs[abandoned_run.host, abandoned_run.key]
        return ended


def _newest(kept: Iterable[RunKept]) -> RunSnapshot | None:
    records = [copy.record for copy in kept if copy.record is not None]
    return max(records, key=lambda record: (record.launch, record.version), default=None)


def _belongs(host: str, copy: RunKept, newest: RunSnapshot) -> bool:
    """Whether this host's part is of the gang of the newest record, and not of one before it."""
    is_same = copy.record is None or copy.record.launch == newest.launch
    return host in newest.hosts and is_same


def _is_trial(kept: Iterable[RunKept]) -> bool:
    return any(copy.order.is_trial for copy in kept)
