"""What a daemon is told when it comes, and which of its commands were taken."""

from __future__ import annotations

from collections.abc import Callable

from swell.executors.controller.gangs import KnownGangs
from swell.executors.controller.known_hosts import KnownHosts
from swell.executors.controller.outbox import DaemonLine, Outbox
from swell.executors.controller.protocol import Gathering, Inventory
from swell.executors.controller.takeover import Takeover
from swell.executors.controller.trials import Trials
from swell.executors.retransmission import ReceivedNumbers

#: A daemon that waits is told so again, lest it take the agent for dead.
GATHERING_EVERY_S = 1.0


class DaemonSession:
    """Session with the daemon that is attached, one at a time. It outlives the daemon's connections."""

    def __init__(
        self,
        boot_id: str,
        protocol: int,
        now_s: Callable[[], float],
        hosts: KnownHosts,
        gangs: KnownGangs,
        trials: Trials,
        takeover: Takeover,
        outbox: Outbox,
    ) -> None:
        """`boot_id`, `protocol`: see `Inventory`."""
        self._boot_id, self._protocol, self._now_s = boot_id, protocol, now_s
        self._hosts, self._gangs, self._trials = hosts, gangs, trials
        self._takeover, self._outbox = takeover, outbox
        self.commands = ReceivedNumbers()  #: of the session; those that came were taken
        self._waiting: tuple[DaemonLine, str] | None = None  #: a daemon that has yet to be told what runs
        self._told_waiting_s = 0.0

    def attach(self, line: DaemonLine, session: str) -> None:
        """A daemon has come. It hears what runs, once that is known, and what no daemon has acknowledged."""
        self._waiting = line, session
        self.greet()

    def greet(self) -> None:
        """If a daemon waits, and what runs is known by now."""
        if self._waiting is None:
            return
        line, session = self._waiting
        if not self._takeover.is_over:
            self._told_waiting_s = self._now_s()
            line.send(Gathering(hosts=tuple(sorted(self._takeover.awaited))))
            return
        self._waiting = None
        if self.commands.begin(session):
            self._gangs.forget_ended(self._outbox.ended_gangs())
        line.send(self._inventory())
        self._outbox.attach(line)

    def detach(self, line: DaemonLine) -> None:
        """The line is gone. No effect if another daemon has come since."""
        if self._waiting is not None and self._waiting[0] is line:
            self._waiting = None
        self._outbox.detach(line)

    def acknowledge(self, number: int) -> None:
        """Events up to this number are in the journal."""
        self._outbox.acknowledge(number)

    def pass_time(self) -> None:
        """What waits is told, if there is a daemon."""
        if self._now_s() - self._told_waiting_s >= GATHERING_EVERY_S:
            self.greet()
        self._outbox.send()

    def _inventory(self) -> Inventory:
        return Inventory(
            protocol=self._protocol,
            boot_id=self._boot_id,
            num_performed=self.commands.num_received,
            gangs=self._gangs.live(),
            profiling=self._trials.jobs,
            untold=self._outbox.ended_gangs(),
            nodes=self._hosts.nodes,
        )
