"""One set of workers that the controller directs: a job's gang or a trial run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from swell.executors.exit_status import HOST_LOST
from swell.executors.gang.effects import Effect, WorkerExit
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.trial_controller import Trial
from swell.executors.hosts.messages import Dealings, KeptWorker, RunKept, RunSnapshot
from swell.model.job import JobSpec
from swell.model.usage import NO_USAGE, GangUsage, total_usage


@dataclass(slots=True)
class DirectedRun:
    """A directed run, gang or trial: its director, the hosts on which it is open, where its workers are."""

    key: str
    job_id: str
    spec: JobSpec
    director: GangController | Trial
    stopped: set[int] = field(default_factory=set)  #: workers whose processes were stopped by a signal
    hosts: set[str] = field(default_factory=set)  #: on which it is open
    coming: set[str] = field(default_factory=set)  #: hosts of a change for which some make ready
    workers: dict[int, str] = field(default_factory=dict)  #: host of each one that has not ended
    dealings: dict[int, Dealings] = field(default_factory=dict)  #: with each of these
    port_host: str = ""  #: where a free port is looked for; empty: nowhere
    launch: int = 0  #: generation of the command that launched it
    total_steps: int | None = None
    record: RunSnapshot | None = None  #: that its hosts were told last; None: none, or it is a trial run
    has_shown_epoch: bool = False  #: what follows an epoch of it was told
    usage: dict[str, GangUsage] = field(default_factory=dict)  #: by host, as it said last
    left_usage: GangUsage = NO_USAGE  #: on hosts that it has no more
    reported_s: float | None = None  #: when it told last how far it is; None: it has not started
    finished_s: float | None = None  #: when the first of its workers met the end condition

    @property
    def gang(self) -> GangController | None:
        """Its director; None: it is a trial run."""
        return None if isinstance(self.director, Trial) else self.director

    @property
    def total_usage(self) -> GangUsage | None:
        """What it has used on all its hosts; None: nothing is known of it."""
        if not self.usage and self.left_usage == NO_USAGE:
            return None
        return total_usage([self.left_usage, *self.usage.values()])

    def leave(self, host: str) -> None:
        """Nothing of it is there any more: what was used stays used, and its memory is free."""
        self.hosts.discard(host)
        if (last := self.usage.pop(host, None)) is not None:
            self.left_usage = total_usage([self.left_usage, last.without_memory])

    def is_on(self, host: str) -> bool:
        """Whether it is open there, has workers there, or looks for a port there."""
        return host in self.hosts or host == self.port_host or host in self.workers.values()


@dataclass(frozen=True, slots=True)
class WholeRun:
    """A run to be taken over, as its hosts have told of it."""

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
        up_to_date, workers = {}, self.workers
        for number in self.hosts_of_workers:
            worker, known = workers.get(number), self.record.dealings[number]
            up_to_date[number] = Dealings(
                num_heard=0 if worker is None else worker.num_said,
                num_orders=known.num_orders,
                orders=tuple(o for o in known.orders if worker is None or o.number > worker.num_orders),
            )
        return up_to_date

    @property
    def is_sound(self) -> bool:
        """Whether nothing runs of which the record does not tell."""
        told = (worker for kept in self.kept.values() for worker in kept.workers)
        return all(worker.number in self.record.workers for worker in told if worker.exit is None)


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
        lost: workers whose hosts are gone.
        num_heard: how many of a worker's messages the gang knows of.
    """
    effects = list(gang.take_over(now_s))
    for number, worker in kept.items():
        if worker.pid is not None:
            effects += gang.forked(number, worker.pid, now_s)
    for number, worker in kept.items():
        for message in worker.unheard(num_heard.get(number, 0)):
            effects += gang.said(number, message, now_s)
    for number, worker in kept.items():
        if worker.reported is not None:
            effects += gang.hear_again(number, worker.reported, now_s)
    why = "its host was lost together with the controller"
    exits = [WorkerExit(number, HOST_LOST, why) for number in lost]
    exits += [WorkerExit(w.number, w.exit.status, w.exit.log_tail) for w in kept.values() if w.exit]
    return [*effects, *gang.exited_together(exits, now_s)]
