"""Where hosts come in: who may have which name, when a host is the controller's to use, and when it is lost.

A host that has joined is the controller's as long as its lease lasts. A line that breaks changes nothing. The
controller hears that a host is lost when its lease, and the time after it, are over; or sooner, when the host
itself says that no worker of that term is left.
"""

from __future__ import annotations

import logging
from contextlib import suppress

import msgspec

from swell.executors.controller.controller import Controller
from swell.executors.gang import host_messages as messages
from swell.executors.leases import GrantedLeases, LeaseAsked, LeaseGranted, TermEnded
from swell.executors.limited_log import LimitedLog
from swell.executors.local.agent.door import DoorError
from swell.executors.local.lines import LineLink, LineRefused
from swell.executors.remote.join_tokens import revoked
from swell.executors.remote.joining import Join, why_unlike
from swell.executors.remote.stream import ResumableStream
from swell.model.names import why_no_host_name
from swell.model.node import InvalidIslands, checked

#: What stands in `swell nodes` as long as a host that has a lease has no line.
SILENT = "does not answer now: its workers may train on; it is lost if it is not back when its lease ends"
#: By these a host could claim the gang of any job: they are for the controller after the one that it had.
KEPT = messages.RunKept | messages.EndKept
#: Of one host. Each device is a column of the scheduler's.
MOST_DEVICES, MOST_OF_DEVICE, MOST_NAMED = 1024, 1e9, 100

log = logging.getLogger("swell.hosts")


class JoinedHost:
    """A machine that has a name, and is the controller's while it has a lease.

    What was said in a term that is over is about workers that are gone, so both sides drop it.
    """

    def __init__(self, door: HostDoor, join: Join, session: str) -> None:
        self.name, self.join = join.host, join  #: of its line, or of its last one; without the secret
        self.stream = ResumableStream(session, self, messages.FromJoined, LeaseAsked)
        self._door = door
        self.is_late = False  #: with its questions, though it may have a line
        self.begin_term(None)

    def begin_term(self, term: int | None) -> None:
        """`term`: in which it is the controller's; None: it is not."""
        self.term = term
        self.offered: messages.DevicesOffered | None = None  #: last, in this term

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is odd about it now."""
        return (SILENT,) if self.is_late or not self.stream.has_line else ()

    # ------------------------------------------------------------ the controller
    def tell(self, message: messages.ToHost) -> None:
        """What it is told waits in the stream as long as there is no line."""
        if self.term is not None:
            self.stream.say(messages.ToldInTerm(term=self.term, message=message))

    # ------------------------------------------------------------ the stream
    def heard(self, message: messages.FromJoined) -> None:
        self._door.handle_stream_message(self, message)

    def heard_aside(self, message: LeaseAsked) -> None:
        self._door.hear_aside(self, message)

    def peer_replaced(self) -> None:
        """Its first question is in a higher term: what the former process had is lost then."""

    def line_closed(self, why: str) -> None:
        self._door.lose_line(self, why)


class HostDoor:
    """Every method is called in the agent's event loop, and returns at once."""

    def __init__(self, owner: Controller, leases: GrantedLeases, session: str, torch: str = "") -> None:
        """
        Args:
            session: of this process; no other has it.
            torch: version that the head has; empty: none.
        """
        self._owner, self._leases = owner, leases
        self._session, self._torch = session, torch
        self._hosts: dict[str, JoinedHost] = {}
        self._removed: set[str] = set()  #: sessions of hosts that were told to leave
        self._num_streams = 0
        self._faults = LimitedLog(log.warning)  #: what cannot be written
        self._is_closing = False
        self._awaited = set(leases.recalled)  #: hosts that an earlier controller had, and that have not come
        owner.await_hosts(self._awaited)

    # ------------------------------------------------------------ who may come in
    def why_not(self, join: Join) -> LineRefused | None:
        """Why a host with a token cannot join; None: it can."""
        if join.session in self._removed:
            why = (
                f"node {join.host!r} was removed from the platform: start `swell node` again to have it back"
            )
        elif not (why := why_no_host_name(join.host) or why_unlike(join, self._torch)):
            return self._why_name_not_free(join)
        return LineRefused(why=why)

    def _why_name_not_free(self, join: Join) -> LineRefused | None:
        known = self._hosts.get(join.host)
        has_line = known is not None and known.stream.has_line
        machine = self._leases.machine_of(join.host)
        if known is not None and (has_line or known.term is not None):
            machine = machine or known.join.machine
        if machine and machine != join.machine:
            why = (
                f"node {join.host!r} is another machine; no two nodes have one name: choose another one with "
                "--name, or wait until that one is given up"
            )
            return LineRefused(why=why, is_final=has_line)
        if known is not None and has_line and known.join.session != join.session:
            why = (
                f"node {join.host!r} has a line from another process with the same state folder; a folder is "
                "of one machine: end that one, or give a copied machine a new folder with --state"
            )
            return LineRefused(why=why, is_final=False)
        return None

    def joined(self, line: LineLink, join: Join) -> None:
        """Go on with the host upon this line; `why_not` has let it in."""
        join = msgspec.structs.replace(join, secret="")
        host = self._hosts.get(join.host)
        if host is not None and host.join.machine != join.machine:
            host.stream.close()
            host = None
        if host is None:
            self._num_streams += 1
            host = JoinedHost(self, join, f"{self._session}.{self._num_streams}")
            self._hosts[join.host] = host
        host.join = join
        log.info("host %s at %s has a line", host.name, join.advertise)
        host.stream.attach(line)
        self._tell_remarks(host)

    def _tell_remarks(self, host: JoinedHost) -> None:
        """What the host has offered, if it has, with what is odd about it now."""
        if host.offered is not None and self._hosts.get(host.name) is host:
            nodes = (msgspec.structs.replace(node, lacks=host.remarks) for node in host.offered.nodes)
            self._owner.handle_host_message(
                host.name, msgspec.structs.replace(host.offered, nodes=tuple(nodes))
            )

    def lose_line(self, host: JoinedHost, why: str) -> None:
        """Changes nothing as long as the host has a lease, but for what is said of it."""
        log.info("the line of host %s is closed%s", host.name, f": {why}" if why else "")
        self._tell_remarks(host)
        self._forget(host)

    def _forget(self, host: JoinedHost) -> None:
        """Forget a host and its undelivered messages, if it has neither a line nor a lease."""
        is_known = self._hosts.get(host.name) is host
        if is_known and host.term is None and not host.stream.has_line:
            del self._hosts[host.name]

    # ------------------------------------------------------------ what hosts say
    def handle_stream_message(self, host: JoinedHost, message: messages.FromJoined) -> None:
        """A message of the stream; of another term than the present one it is about workers that are gone."""
        if message.term != host.term:
            return
        if isinstance(message, messages.SaidInTerm):
            self._hear_said(host, message.message)
        else:
            self._leases.end(host.name, message.term)
            self._lose_ended("it left the platform")
            host.stream.close()

    def _hear_said(self, host: JoinedHost, message: messages.FromHost) -> None:
        """Pass it to the controller, which knows what runs the host was given."""
        if isinstance(message, KEPT) and not self._leases.is_recalled(host.name):
            why = f"it says what it has kept, and no earlier agent gave it a lease in term {host.term}"
            log.warning("refused host %s: %s", host.name, why)
        elif isinstance(message, messages.DevicesOffered) and not can_offer(host.name, message):
            log.warning("refused host %s: it offers what no host of this name has", host.name)
        elif isinstance(message, messages.DevicesOffered):
            host.offered = message
            self._tell_remarks(host)
        else:
            self._owner.handle_host_message(host.name, message)

    def hear_aside(self, host: JoinedHost, asked: LeaseAsked) -> None:
        """The host asks for its lease."""
        if self._is_closing or host.join.session in self._removed:
            self._refuse_lease(host, asked)
            return
        try:
            answer = self._leases.answer(host.name, host.join.machine, asked)
        except OSError as error:
            self._faults("no host gets a lease: none can be noted (%s): make room on the disk", error)
            return
        if isinstance(answer, LeaseGranted):
            self._awaited.discard(host.name)
        self._lose_ended("its lease had ended, and its workers with it")
        if isinstance(answer, LeaseGranted) and host.term != answer.term:
            host.begin_term(answer.term)
            self._owner.join_host(host.name, host.tell, lambda: host.stream.has_line)
            log.info("host %s has a lease in term %d", host.name, answer.term)
        host.stream.say_aside(answer)

    def _refuse_lease(self, host: JoinedHost, asked: LeaseAsked) -> None:
        """It gets no lease; a question in a higher term says that no worker of the present one is left."""
        if host.term is None:
            return
        if asked.term > host.term:
            self._leases.end(host.name, host.term)
            self._lose_ended("it was told to end its workers")
        else:
            host.stream.say_aside(TermEnded(term=asked.term))

    # ------------------------------------------------------------ time
    def tick(self) -> None:
        """Time has passed. To be called ten times a second."""
        self._lose_ended("it has not renewed its lease")
        for host in list(self._hosts.values()):
            host.stream.tick()
            if (is_late := self._leases.is_late(host.name)) != host.is_late:
                host.is_late = is_late
                self._tell_remarks(host)

    def _lose_ended(self, why: str) -> None:
        for name, term in self._leases.take_ended():
            host = self._hosts.get(name)
            if name in self._awaited:
                self._awaited.discard(name)
                self._owner.lose_host(
                    name, f"host {name!r} is lost: it did not come back from the agent before"
                )
            elif host is not None and host.term == term:
                self._lose(host, why)

    def _lose(self, host: JoinedHost, why: str) -> None:
        host.begin_term(None)
        log.info("host %s is lost: %s", host.name, why)
        self._owner.lose_host(host.name, f"host {host.name!r} is lost: {why}")
        self._forget(host)

    def token_of(self, name: str) -> str:
        """Name of the join token of a host; empty: no such host has joined."""
        host = self._hosts.get(name)
        return "" if host is None else host.join.token

    # ------------------------------------------------------------ orders
    def remove(self, name: str) -> None:
        """Its workers are ended, and its process ends. It may join again when it is started again.

        One that is gone, and may run no worker any longer, is forgotten.

        Raises:
            DoorError: no such host has joined; the text names those that have.
        """
        host = self._hosts.get(name)
        if host is None and self._leases.forget(name):
            log.info("host %s is forgotten", name)
            return
        if host is None:
            known = ", ".join(sorted(self._hosts)) or "none"
            raise DoorError(f"no host {name!r} has joined; these have: {known}")
        self._removed.add(host.join.session)
        self._leases.refuse(name)
        host.stream.say(messages.HostRemoved())

    def give_up(self, name: str, why: str) -> None:
        """Another witness has it for dead: it is lost now, unless it has a line.

        What is left of its workers ends with its lease, and nothing of what they say counts. If it comes
        back, it kills them before anything is done with it.
        """
        host = self._hosts.get(name)
        if host is None or host.term is None or host.stream.has_line:
            return
        self._leases.refuse(name)
        self._lose(host, why)

    def close_lines_of(self, token: str) -> None:
        """The token was revoked: lines that it has opened are closed, and each host is told why."""
        for host in self._hosts.values():
            if host.join.token == token:
                host.stream.refuse(revoked(token))

    def begin_to_close(self) -> None:
        """No host gets a lease any longer; each is told that its term is over."""
        self._is_closing = True
        for host in self._hosts.values():
            if host.term is not None:
                self._leases.refuse(host.name)
                host.stream.say_aside(TermEnded(term=host.term))

    @property
    def has_to_wait(self) -> bool:
        """Whether a host that can answer has workers."""
        return any(host.term is not None and host.stream.has_line for host in self._hosts.values())

    def close_lines(self) -> None:
        """Hosts go on asking for another controller."""
        for host in list(self._hosts.values()):
            host.stream.close()


def can_offer(host: str, offered: messages.DevicesOffered) -> bool:
    """Whether a host of this name may have this: one node at most, which is called so and has all devices."""
    own = sorted(f"{host}/{number}" for number in range(min(len(offered.devices), MOST_DEVICES)))
    nodes, devices = offered.nodes, offered.devices.values()
    names = [name for node in nodes for name in (node.kind, node.rack, node.address)]
    names += [device.kind for device in devices]
    numbers = [offered.num_cores, *(one.pace_per_s for one in devices), *(one.cores for one in nodes)]
    with suppress(InvalidIslands):
        return (
            sorted(offered.devices) == own
            and len(nodes) <= 1
            and all(node.name == host and sorted(node.devices) == own for node in nodes)
            and all(number is None or 0 < number <= MOST_OF_DEVICE for number in numbers)
            and all(name.isprintable() and len(name) <= MOST_NAMED for name in names)
            and all(checked(node.islands, len(own)) == node.islands for node in nodes)
        )
    return False
