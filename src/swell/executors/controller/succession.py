"""A controller that starts again: takes over what hosts have kept, and ends what cannot be taken over.

Until it is done no daemon is told anything: what is not in the inventory a daemon takes for lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from swell.executors.controller.directed_runs import DirectedRuns
from swell.executors.controller.gangs import KnownGangs
from swell.executors.controller.known_hosts import KnownHosts
from swell.executors.controller.takeover import Takeover, WholeRun
from swell.executors.gang.records import read_record
from swell.executors.gang.takeover import take_over
from swell.executors.gang.workers import KILL
from swell.executors.hosts.messages import (
    CloseRun,
    DevicesOffered,
    EndKept,
    FromHost,
    RunKept,
    SetShare,
    SignalWorker,
    WorkerKept,
)
from swell.model.event import GangEnded, Outcome


@dataclass(slots=True)
class Succession:
    """Its owner hands on what hosts tell of the time before, and asks `is_over` before it greets a daemon."""

    runs: DirectedRuns
    hosts: KnownHosts
    gangs: KnownGangs
    offer: Callable[[str, DevicesOffered], None]  #: has these devices of a host used from now on
    again: Callable[[str, FromHost], None]  #: handles what a host says, after what is being handled now
    takeover: Takeover = field(default_factory=Takeover)
    _offers: dict[str, DevicesOffered] = field(default_factory=dict)  #: by host; they have to wait

    @property
    def is_over(self) -> bool:
        """What ran before is directed now, or is gone."""
        return self.takeover.is_over

    @property
    def awaited(self) -> Collection[str]:
        """Hosts that have yet to come, or to be given up."""
        return self.takeover.awaited

    # ------------------------------------------------------------ what hosts tell
    def hear(self, host: str, message: RunKept | WorkerKept | EndKept) -> None:
        """Record what a host has kept from the time before this controller."""
        if isinstance(message, EndKept):
            self.takeover.note_end(message.end)
        elif isinstance(message, WorkerKept):
            self.takeover.note_worker(host, message)
        elif self.is_over:  # it was not waited for: what it runs is not known to be of any gang
            self.takeover.leave({host: message})
        else:
            self.takeover.note(host, message)

    def keep(self, host: str, message: FromHost) -> bool:
        """Whether it is about a run that is not taken over yet: it is heard afterwards."""
        return not isinstance(message, WorkerKept) and self.takeover.keep(host, message)

    def hear_all_kept(self, host: str) -> None:
        """It has told what was: no run waits for it any longer."""
        self.takeover.settle(host)
        self.go_on()

    def hear_offer(self, host: str, offered: DevicesOffered) -> None:
        """It is the last word about what was. Devices are not used while something runs there that is not
        directed, if a daemon may ask for them already.
        """
        if self.is_over and self.takeover.has_remnants(host):
            self._offers[host] = offered
        else:
            self.offer(host, offered)
            self.takeover.settle(host)
        self.go_on()

    def hear_exit(self, host: str, key: str, worker: int) -> None:
        """Record the exit of a worker of a run that `is_remnant`."""
        self.takeover.note_exit(host, key, worker)
        self.go_on()

    def is_remnant(self, host: str, key: str) -> bool:
        """Whether this run on this host is being ended."""
        return self.takeover.is_remnant(host, key)

    def leave_workers(self, host: str, key: str, workers: Iterable[int], offered: DevicesOffered) -> None:
        """A gang goes on without these. They are killed once their host can be told; what it offers is
        not used before they are gone.
        """
        self._offers.setdefault(host, offered)  # what it has said since counts
        self.takeover.leave_workers(host, key, workers)
        self.go_on()

    def lose_host(self, host: str) -> None:
        """No worker is left there; the owner hears of it afterwards."""
        self._offers.pop(host, None)
        self.takeover.lose(host)
        self.go_on()

    # ------------------------------------------------------------ what follows
    def go_on(self) -> None:
        """Take over what is whole, and end what will not be."""
        for whole in self.takeover.take_whole():
            known = self.gangs.get(whole.key)
            if known is not None and not known.is_over:
                # A host with an older record came first, and its gang does not know of these workers.
                self.takeover.leave(whole.kept)
            elif whole.kept and whole.is_sound:
                self._take_over(whole)
            else:
                self._give_up(whole)
        self._end_remnants()
        for host, message in self.takeover.take_later():
            self.again(host, message)
        if self.is_over:
            for end in self.takeover.take_ends():
                if self.gangs.get(end.job_id) is None:
                    self.runs.report(end)

    def _take_over(self, whole: WholeRun) -> None:
        run, gang = self.gangs.adopt(whole)
        now_s = self.runs.now_s()
        self.runs.begin_run(run)
        effects = take_over(gang, whole.workers, whole.lost, whole.num_heard, now_s)
        for host in whole.kept:  # a change of it may have been under way
            self.hosts.tell(host, SetShare(run=run.key, share=gang.gang.wanted_configuration.weight))
        for number, host in run.workers.items():
            for order in run.dealings[number].orders:
                self.hosts.tell(host, order)
        self.runs.do(run, effects, is_kept=True)
        self.runs.release_hosts(run)

    def _give_up(self, whole: WholeRun) -> None:
        self.takeover.leave(whole.kept)
        gang = read_record(whole.record.gang)
        end = GangEnded(
            at_s=0.0,
            job_id=whole.key,
            generation=gang.replies.generation,
            outcome=Outcome.LOST,
            steps=gang.steps,
            message="the controller was lost, and what its hosts tell of the gang does not fit together",
        )
        self.runs.report(end)

    def _end_remnants(self) -> None:
        for abandoned_run in self.takeover.abandoned_runs:
            if not abandoned_run.is_killed:
                abandoned_run.is_killed = True
                for worker in sorted(abandoned_run.workers):
                    order = SignalWorker(run=abandoned_run.key, worker=worker, signal=KILL)
                    self.hosts.tell(abandoned_run.host, order)
        for abandoned_run in self.takeover.take_ended():
            self.hosts.tell(abandoned_run.host, CloseRun(run=abandoned_run.key))
        for host in [host for host in self._offers if not self.takeover.has_remnants(host)]:
            self.offer(host, self._offers.pop(host))
