"""The host's end: one term after another, each with processes of its own.

With the first lease of a term its inside begins (`TermHost`), which is offered to the controller. Its
processes are killed when the lease ends. The next term begins when they are gone.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from functools import partial

from swell.executors.gang import host_messages as messages
from swell.executors.leases import FromController, HeldLease, LeaseGranted
from swell.executors.limited_log import LimitedLog
from swell.executors.local.agent.host import LocalHost
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import LocalNode
from swell.executors.local.limits.allocation import available_cores
from swell.executors.local.lines import LineLink
from swell.executors.node.withdrawal import Withdrawal
from swell.executors.remote.stream import ResumableStream
from swell.wire.messages import Alive

#: A worker gives one heartbeat every `Welcome.heartbeat_s`, and may be given up after four that did not come.
#: One by one they would keep a controller busy that has a thousand hosts.
HEARTBEATS_TOGETHER = 2
ALIVE_EVERY_S = 1.0
#: For a zygote to tell that its workers have ended; then it is killed, and they with it. Well within the
#: margin that the controller waits after a lease (`LeaseTimes.margin_s`).
REAP_S = 1.0

#: Takes what the controller is to hear.
Answer = Callable[[messages.FromHost], None]

log = logging.getLogger("swell.node")


class TermHost(LocalHost):
    """The processes of one term, see `HostTerms`. Every method returns at once."""

    def __init__(self, options: AgentOptions, lock_fd: int, answer: Answer, node: LocalNode) -> None:
        super().__init__(options, lock_fd, answer)
        self._node = node
        self.bindings.update(node.bindings)  # what was begun on these devices before may go on at once
        self._has_offered = False
        self._ending: asyncio.Task[None] | None = None

    def present(self) -> None:
        """Devices are offered once workers can start on them: what is given to a job before waits unused."""
        self.tell_kept()
        if not self._offer_if_warm():
            self._answer(messages.DevicesOffered(devices={}, num_cores=available_cores()))

    def _offer_if_warm(self) -> bool:
        """Offer the devices once workers can start on them. Returns whether they are offered."""
        if not self._has_offered and self._zygotes.of().is_starting:
            return False
        if not self._has_offered:
            log.info("modules are imported: the devices of this host are offered")
        self._has_offered = True
        self.offer(self._node.bindings, (self._node.node,))
        return True

    # ------------------------------------------------------------ until it ends
    def tick(self) -> None:
        super().tick()
        if not self._has_offered:
            self._offer_if_warm()

    def kill(self) -> None:
        """Begin to end every process."""
        self._ending = asyncio.get_running_loop().create_task(self.shut_down(REAP_S))

    @property
    def is_gone(self) -> bool:
        """Whether none is left, after `kill`."""
        if self._ending is None or not self._ending.done():
            return False
        self._ending.result()  # a failure ends this process, and the kernel all others of it
        return True


class HostTerms:
    """Every method is called in one event loop, and returns at once."""

    def __init__(
        self,
        session: str,
        begin_term: Callable[[], int],
        new_inside: Callable[[Answer], TermHost],
        now_s: Callable[[], float],
        show_end: Callable[[float], None] = lambda end_s: None,
    ) -> None:
        """
        Args:
            session: of this process; no other has it.
            begin_term: the number of a new term, which is above all earlier ones and will stay so. Raises
                OSError.
            now_s: see `HeldLease`.
            show_end: told when nothing of this process may run any longer, which workers see though this
                process is stopped. -inf: it is being ended; inf: nothing is left.

        Raises:
            OSError: see `begin_term`.
        """
        self.stream = ResumableStream(session, self, messages.ToJoined, FromController)
        self.line_lost = asyncio.Event()  #: the line that was attached last is closed
        self.withdrawal: Withdrawal | None = None  #: None: this host stays
        self.is_removed = False  #: the controller wants no workers here any longer
        self.is_over = False  #: nothing is left, and nothing will be begun
        self._begin_term, self._new_inside = begin_term, new_inside
        self._now_s, self._show_end = now_s, show_end
        self._lease = HeldLease(begin_term())
        self.alive_every_s = ALIVE_EVERY_S
        self._alive: dict[str, dict[int, Alive]] = {}  #: by run and worker, in this term; yet to be told
        self._alive_told_s = -math.inf
        self.inside: TermHost | None = None  #: None: the term has had no lease yet
        self._is_offered = self._is_ending = self._is_leaving = False
        self._failures, self._obstacles = LimitedLog(log.exception), LimitedLog(log.warning)

    @property
    def term(self) -> int:
        return self._lease.term

    @property
    def has_lease(self) -> bool:
        """Whether workers may run now."""
        is_ending = self._is_ending or self._is_leaving
        return self._lease.is_held(self._now_s()) and not is_ending

    def attach(self, line: LineLink) -> None:
        """Go on upon this line; see `ResumableStream.attach`."""
        self.line_lost.clear()
        self._lease.open_line()
        self.stream.attach(line)

    def withdraw(self, within_s: float, why: str) -> None:
        """The machine will be gone so soon: warn the controller, and leave in time."""
        self.withdrawal = Withdrawal(within_s, why, self._now_s())
        self._warn()

    def leave(self) -> None:
        """End all workers, tell the controller, and begin no other term: `is_over` then."""
        self._is_leaving = True

    # ------------------------------------------------------------ time
    def tick(self) -> None:
        """Send what is due, renew the lease, and end a term that is over. To be called ten times a second."""
        try:
            if self.inside is not None and not self._is_ending:
                self.inside.tick()
        except Exception:  # noqa: BLE001 - the lease is renewed, or ends, all the same
            self._failures("what runs on this host cannot be looked after; trying again")
        if self._now_s() >= self._alive_told_s + self.alive_every_s:
            # The newest sign of each worker, together: it says all that those before it said.
            alive, self._alive = self._alive, {}
            if alive:
                self._alive_told_s = self._now_s()
                self._say_now(messages.WorkersAlive(runs=alive))
        if (leaving := self.withdrawal) is not None:
            is_needed = self.inside is not None and self.inside.is_needed
            self._is_leaving |= leaving.is_due(is_needed, self._now_s())
        is_over = self._is_ending or self._lease.is_over(self._now_s())
        if self._is_leaving or is_over:
            self._end_term()
        elif self.stream.is_open and (asked := self._lease.ask(self._now_s())) is not None:
            self.stream.say_aside(asked)
        self.stream.tick()

    def _end_term(self) -> None:
        """Kill; once everything is gone, begin the next term, or end."""
        if not self._is_ending:
            if self._is_offered:
                why = "this host leaves" if self._is_leaving else "the lease has ended"
                log.info("%s: all workers are killed", why)
            self._is_ending = True
            self._show_end(-math.inf)
            if self.inside is not None:
                self.inside.kill()
        if self.is_over or (self.inside is not None and not self.inside.is_gone):
            return
        self._show_end(math.inf)
        if self._is_leaving:
            self.stream.say(messages.HostLeft(term=self.term))
            self.is_over = True
            return
        try:
            number = self._begin_term()
        except OSError as error:
            self._obstacles("cannot begin a term (%s): make room on the disk", error.strerror)
            return
        self._lease = HeldLease(number)
        self._is_offered = self._is_ending = False
        self._alive = {}
        self.inside = None

    # ------------------------------------------------------------ the stream
    def _warn(self) -> None:
        if self.withdrawal is not None:
            self._say_now(self.withdrawal.warning(self._now_s()))

    def _say(self, term: int, message: messages.FromHost) -> None:
        """Send a message of a term, unless that term is over: all its messages are lost together."""
        if term != self.term:
            return
        if isinstance(message, messages.WorkerSaid):
            if isinstance(message.message, Alive):
                self._alive.setdefault(message.run, {})[message.worker] = message.message
                return
            self._alive.get(message.run, {}).pop(message.worker, None)  # this is a sign of life, too
        self._say_now(message)
        if isinstance(message, messages.DevicesOffered):
            self._warn()  # now there are nodes of which it can be told

    def _say_now(self, message: messages.FromHost) -> None:
        if self.has_lease:
            self.stream.say(messages.SaidInTerm(term=self.term, message=message))

    def heard(self, message: messages.ToJoined) -> None:
        if isinstance(message, messages.HostRemoved):
            self.is_removed = True
            self.leave()
        elif message.term == self.term and self.has_lease and self.inside is not None:
            self.inside.tell(message.message)

    def heard_aside(self, answer: FromController) -> None:
        self._lease.note_answer(answer, self._now_s())
        if self.has_lease:
            self._show_end(self._lease.end_s)
            is_joined = isinstance(answer, LeaseGranted) and answer.term == self.term
            if is_joined and not self._is_offered:
                self._is_offered = True
                if self.inside is None:
                    self.inside = self._new_inside(partial(self._say, self.term))
                log.info("this host has a lease: workers can be started")
                self.inside.present()

    def peer_replaced(self) -> None:
        """Another controller is there, which knows nothing of the workers here.

        It hears nothing of this term before it has granted a lease in it, and is told then what runs.
        """
        self._is_offered = False

    def line_closed(self, why: str) -> None:
        self.line_lost.set()
        log.info("the line to the head is closed%s", f": {why}" if why else "")
