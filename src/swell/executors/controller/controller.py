"""Runs every gang and trial run: does what their protocols say, by messages to hosts, and tells the daemon.

It knows no machine. Each input (a command, a message of a host, time) is handled to its end before the next
one, so what a host answers at once is handled as if it had come later.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection
from pathlib import Path

from swell.executors.controller.directed_runs import DirectedRuns
from swell.executors.controller.gang_commands import GangCommands
from swell.executors.controller.known_hosts import KnownHosts, Openings
from swell.executors.controller.protocol import (
    PROTOCOL,
    DaemonLine,
    ExecutorCommand,
    Gathering,
    Inventory,
    Outbox,
)
from swell.executors.controller.takeover import Takeover
from swell.executors.controller.trials import Trials
from swell.executors.gang import host_messages as messages
from swell.executors.gang.host_messages import FromHost, NodeHost
from swell.executors.gang.job_context import GangSettings
from swell.executors.retransmission import ReceivedNumbers
from swell.model.event import AnyEvent, JobWarned
from swell.model.running import RunningWork
from swell.wire.lease_end import AwakeClock

#: A daemon that waits is told so again, lest it take the agent for dead.
GATHERING_EVERY_S = 1.0


class Inputs:
    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_busy = False

    def handle(self, work: Callable[[], None]) -> None:
        """Run `work` at once, or after the input that is being handled and all that are queued."""
        self._waiting.append(work)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._waiting:
                self._waiting.popleft()()
        finally:
            self._is_busy = False


class Controller:
    """Controller of one platform's gangs and trial runs.

    Every method returns at once, and must be called from one thread.
    """

    def __init__(
        self,
        state_dir: Path,
        gang_settings: GangSettings,
        boot_id: str,
        time_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            boot_id: told to daemons, see `Inventory`.
            time_s: a clock that never goes back.
        """
        self._clock = AwakeClock(time_s)
        self._inputs = Inputs()
        self._hosts = hosts = KnownHosts()
        self._outbox = Outbox()
        self._runs = runs = DirectedRuns(
            self.now_s,
            self._inputs.handle,
            hosts,
            gang_settings,
            self._outbox,
            lambda run, event: self._trials.shown(run, event),
            lambda run: self._trials.changed(run),
        )
        self._openings = openings = Openings(hosts, runs.report)
        self._trials = Trials(state_dir, hosts, openings, runs, self._inputs.handle)
        self._commands = GangCommands(hosts, openings, runs, self._trials)
        self._takeover = Takeover(runs, hosts)
        self._boot_id = boot_id
        self._commands_taken = ReceivedNumbers()  #: of the daemon's session, which outlives its connections
        self._waiting: tuple[DaemonLine, str] | None = None  #: a daemon that has yet to be told what runs
        self._told_waiting_s = 0.0

    def now_s(self) -> float:
        """Return the time in seconds on a clock that stands still while this process is stopped."""
        return self._clock.now_s()

    # ------------------------------------------------------------ the daemon
    def attach(self, line: DaemonLine, session: str) -> None:
        """A daemon has come. It hears what runs, once that is known, and what no daemon has acknowledged."""
        self._waiting = line, session
        self._greet()

    def detach(self, line: DaemonLine) -> None:
        """The line is gone. No effect if another daemon has come since."""
        if self._waiting is not None and self._waiting[0] is line:
            self._waiting = None
        self._outbox.detach(line)

    def acknowledge(self, number: int) -> None:
        """Events up to this number are in the journal."""
        self._outbox.acknowledge(number)

    def perform(self, number: int, command: ExecutorCommand) -> int:
        """Take a command, if it was not taken before. Returns how many of the session have been taken."""
        if self._commands_taken.take(number):
            self._inputs.handle(lambda: self._commands.perform(command))
        return self._commands_taken.num_received

    def _greet(self) -> None:
        """If a daemon waits, and what runs is known by now."""
        if self._waiting is None:
            return
        line, session = self._waiting
        if not self._takeover.is_over:
            self._told_waiting_s = self.now_s()
            line.send(Gathering(hosts=tuple(sorted(self._takeover.awaited))))
            return
        self._waiting = None
        if self._commands_taken.begin(session):
            self._runs.forget_ended()
            self._commands.forget_launches()
        line.send(
            Inventory(
                protocol=PROTOCOL,
                boot_id=self._boot_id,
                num_performed=self._commands_taken.num_received,
                work=RunningWork(
                    gangs=self._runs.live_gangs,
                    ended=self._outbox.ended_gangs(),
                    trials=self._trials.jobs,
                    nodes=self._hosts.nodes,
                    away=self._hosts.away,
                ),
            )
        )
        self._outbox.attach(line)

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts that have joined and were not lost since."""
        return self._hosts.names

    def has_workers(self, host: str) -> bool:
        """Whether a job has workers on this host, or is about to."""
        devices = (device for run in self._runs.by_key.values() for device in run.director.devices)
        return any(self._hosts.host_of.get(device) == host for device in devices)

    def report(self, event: AnyEvent) -> None:
        """Have the daemon told of something that happened outside the controller."""
        self._runs.report(event)

    # ------------------------------------------------------------ inputs
    def tick(self) -> None:
        """Time has passed. To be called ten times a second."""
        self._inputs.handle(self._pass_time)

    def hear(self, host: str, message: FromHost) -> None:
        """What a host says; one that is not of this platform is not heard."""
        self._inputs.handle(lambda: self._hear_member(host, message))

    def await_hosts(self, names: Collection[str]) -> None:
        """They may run workers of the controller before. To be called before anything else.

        Each of them joins, or `lose_host` is called for it when none of these can live any more; until then
        daemons wait.
        """
        self._takeover.awaited.update(names)

    def join_host(self, name: str, host: NodeHost) -> None:
        """Add a host, which is sent orders from now on. Its first message names its devices."""
        self._inputs.handle(lambda: self._hosts.join(name, host))

    def lose_host(self, name: str, why: str) -> None:
        """Its processes are gone, or will be before anything is done with its devices."""
        self._inputs.handle(lambda: self._lose_host(name, why))

    # ------------------------------------------------------------ what becomes of them
    def _pass_time(self) -> None:
        self._runs.pass_time()
        self._trials.advance()
        if self.now_s() - self._told_waiting_s >= GATHERING_EVERY_S:
            self._greet()
        self._outbox.send()

    def _hear_member(self, host: str, message: FromHost) -> None:
        """A host may have been lost after it said this."""
        if host not in self._hosts:
            return
        if not self._takeover.keep(host, message):
            self._hear(host, message)
        elif self._takeover.is_over:
            self._greet()

    def _is_given(self, host: str, job_id: str) -> bool:
        """Whether the host has a run of this job, or makes ready for one."""
        runs = (run for run in self._runs.by_key.values() if run.job_id == job_id)
        return self._openings.is_asked(host, job_id) or any(run.is_on(host) for run in runs)

    def _hear(self, host: str, message: FromHost) -> None:
        match message:
            case messages.RunKept() | messages.EndKept():
                self._takeover.hear(host, message)
            case messages.DevicesOffered():
                self._takeover.hear_offer(host, message)
                self._greet()
            case messages.RunOpened() | messages.RunRefused():
                self._openings.hear(host, message)
            case messages.WorkersAlive(runs=runs):
                self._runs.hear_alive(host, runs)
            case messages.UsageRead():
                self._runs.hear_usage(host, message)
            case messages.OwnerWarned(job_id=job_id, about=about, message=text):
                if not text or self._is_given(host, job_id):
                    self._runs.report(JobWarned(at_s=0.0, job_id=job_id, about=about, message=text))
            case messages.HostLeaving():
                warned = self._hosts.warn(host, message, time.clock_gettime(time.CLOCK_BOOTTIME))
                self._runs.report_all(warned)
            case _ if self._takeover.is_abandoned(host, message.run):
                if isinstance(message, messages.WorkerExited):
                    self._takeover.hear_exit(host, message.run, message.worker)
                    self._greet()
            case _:
                self._runs.hear(host, message)

    def _lose_host(self, name: str, why: str) -> None:
        """Its nodes go first: what becomes of gangs that were on them is then no fault of their jobs."""
        self._takeover.lose_host(name)
        self._greet()
        lost_nodes = self._hosts.lose(name, why)
        if lost_nodes is None:
            return
        self._runs.report_all(lost_nodes)
        self._trials.lose_host(name, why)
        self._runs.lose_host(name, why)
        self._openings.lose_host(name, why)
