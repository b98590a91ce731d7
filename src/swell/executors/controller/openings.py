"""Hosts make ready for runs: each is asked once, and what follows waits until all have answered."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from swell.executors.controller.known_hosts import KnownHosts
from swell.executors.hosts.messages import OpenRun, RunOpened, RunRefused
from swell.model.event import AnyEvent, HostRuledOut, Outcome


@dataclass(slots=True)
class Opening:
    """A run for which some hosts make ready, and what they have answered so far."""

    order: OpenRun
    then: Callable[[Opening], None]  #: is called once none is awaited
    awaited: set[str]  #: hosts that have yet to answer
    opened: dict[str, RunOpened] = field(default_factory=dict)  #: by host
    refusal: tuple[Outcome, str] | None = None  #: the first one

    @property
    def first_worker(self) -> int:
        """No worker had this number, or a higher one, on any of the hosts."""
        return max((opened.first_worker for opened in self.opened.values()), default=0)


class Openings:
    """The hosts that make ready now, and for which run: no run twice at a time."""

    def __init__(self, hosts: KnownHosts, report: Callable[[AnyEvent], None]) -> None:
        self._hosts, self._report = hosts, report
        self._under_way: dict[str, Opening] = {}  #: by run

    def __contains__(self, key: str) -> bool:
        return key in self._under_way

    def is_asked(self, host: str, job_id: str) -> bool:
        """Whether the host makes ready for a run of this job."""
        openings = self._under_way.values()
        return any(host in opening.awaited and opening.order.job_id == job_id for opening in openings)

    def ask(self, order: OpenRun, hosts: Collection[str], then: Callable[[Opening], None]) -> None:
        """Have these hosts make ready."""
        opening = self._under_way[order.run] = Opening(order, then, set(hosts))
        self._hosts.tell_all(hosts, order)
        self._go_on(opening)

    def hear(self, host: str, answer: RunOpened | RunRefused) -> None:
        """No effect if the host was not asked, or has answered."""
        opening = self._under_way.get(answer.run)
        if opening is None or host not in opening.awaited:
            return
        opening.awaited.discard(host)
        if isinstance(answer, RunOpened):
            opening.opened[host] = answer
        else:
            opening.refusal = opening.refusal or (answer.outcome, answer.why)
            if answer.is_lacking:
                self._rule_out(host, opening.order.job_id, answer.why)
        self._go_on(opening)

    def _rule_out(self, host: str, job_id: str, why: str) -> None:
        """Before what comes of it is told, so that the head does not choose the host again."""
        devices = tuple(sorted(device for device, of in self._hosts.host_of.items() if of == host))
        self._report(HostRuledOut(at_s=0.0, job_id=job_id, devices=devices, message=why))

    def lose_host(self, host: str, why: str) -> None:
        """It answers nothing more, and what it has opened is gone with it."""
        for opening in list(self._under_way.values()):
            if host in opening.awaited or host in opening.opened:
                opening.awaited.discard(host)
                opening.opened.pop(host, None)
                opening.refusal = opening.refusal or (Outcome.LOST, why)
                self._go_on(opening)

    def _go_on(self, opening: Opening) -> None:
        key = opening.order.run
        if not opening.awaited and self._under_way.get(key) is opening:
            del self._under_way[key]
            opening.then(opening)
