"""The controller's side: what a host held is free when its term is over, and no sooner."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from swell.executors.leases.lease_times import LeaseTimes
from swell.executors.leases.messages import FromController, LeaseAsked, LeaseGranted, TermOver


class HostTerm(msgspec.Struct, frozen=True, kw_only=True):
    """What the next controller must know of a host: to be written before anyone acts on it."""

    host: str
    machine: str  #: to which the name belongs until the term is over
    term: int
    lease_s: float  #: the longest that was granted in the term
    is_over: bool


@dataclass(slots=True)
class _Term:
    machine: str
    number: int
    lease_s: float
    free_s: float
    is_recalled: bool = False  #: an earlier controller has granted in it
    is_refused: bool = False  #: not granted any longer
    is_told: bool = False  #: that it is over


class GrantedLeases:
    """Leases of all hosts, by names that no two machines share. Times are of one clock of the controller.

    That clock is at most `CLOCK_ERROR_SHARE` faster than real time, and never goes back. It may stand still
    while the controller does, so that what it did not hear meanwhile counts as no silence.
    """

    def __init__(self, times: LeaseTimes) -> None:
        self._times = times
        self._terms: dict[str, _Term] = {}
        self._ended: list[tuple[str, int]] = []
        self._look_s = -math.inf  #: no term, of those that are not told, is over before

    def recall(self, records: Iterable[HostTerm], now_s: float) -> None:
        """What an earlier controller may have granted until now.

        What was known to be over is not told again by `take_ended`.
        """
        self._look_s = -math.inf
        for record in records:
            free_s = now_s if record.is_over else now_s + self._times.wait_after_s(record.lease_s)
            term = _Term(record.machine, record.term, record.lease_s, free_s, is_recalled=True)
            term.is_refused = term.is_told = record.is_over
            self._terms[record.host] = term

    def machine_of(self, host: str, now_s: float) -> str:
        """Return the machine that may run workers of this host; empty: none, so any may have the name."""
        return "" if self.is_free(host, now_s) else self._terms[host].machine

    def is_recalled(self, host: str) -> bool:
        """Whether an earlier controller may have started workers in the host's present term."""
        return host in self._terms and self._terms[host].is_recalled

    def answer(self, host: str, machine: str, asked: LeaseAsked, now_s: float) -> FromController:
        """`now_s`: read after the message had come. Write `record`, if changed, before this is sent.

        Raises ValueError: workers of another machine may run under this name, see `machine_of`.
        """
        term = self._terms.get(host)
        if term is not None and term.machine != machine:
            self.forget(host, now_s)
            term = None
        if term is None or asked.term > term.number:
            self._forget(host)
            term = self._terms[host] = _Term(machine, asked.term, 0.0, now_s)
            self._look_s = -math.inf
        elif asked.term < term.number or now_s >= term.free_s:
            return TermOver(term=asked.term)
        if term.is_refused:
            return TermOver(term=asked.term)
        term.lease_s = max(term.lease_s, self._times.lease_s)
        term.free_s = max(term.free_s, now_s + self._times.wait_s)
        return LeaseGranted(term=asked.term, number=asked.number, lease_s=self._times.lease_s)

    def refuse(self, host: str) -> None:
        """Grant nothing more in the host's present term. It is over when its last lease is."""
        if (term := self._terms.get(host)) is not None:
            term.is_refused = True

    def end(self, host: str, number: int, now_s: float) -> None:
        """The host says that no worker of this term is left, and that none will be started in it."""
        term = self._terms.get(host)
        if term is not None and term.number == number:
            term.is_refused, term.free_s = True, now_s
            self._look_s = -math.inf

    def forget(self, host: str, now_s: float) -> bool:
        """Have no record of a host any longer. False: there is none.

        Raises:
            ValueError: workers of its machine may run.
        """
        if not self.is_free(host, now_s):
            raise ValueError(f"host {host!r} is not free: workers may run there")
        return self._forget(host)

    def is_free(self, host: str, now_s: float) -> bool:
        """Whether no worker can run there: what it held may be given away, its jobs may run elsewhere."""
        term = self._terms.get(host)
        return term is None or now_s >= term.free_s

    def take_ended(self, now_s: float) -> list[tuple[str, int]]:
        """Hosts and their terms that are over, each term once. No worker started in one of them is left."""
        if now_s >= self._look_s:
            for host, term in self._terms.items():
                if now_s >= term.free_s:
                    self._end(host, term)
            waited_for = (term.free_s for term in self._terms.values() if now_s < term.free_s)
            self._look_s = min(waited_for, default=math.inf)
        ended, self._ended = self._ended, []
        return ended

    def records(self, now_s: float) -> dict[str, HostTerm]:
        """Return the terms of all hosts, for `recall` of the next controller."""
        return {host: self.record(host, now_s) for host in self._terms}

    def record(self, host: str, now_s: float) -> HostTerm:
        """The same of one host, which has asked or was recalled."""
        term = self._terms[host]
        return HostTerm(
            host=host,
            machine=term.machine,
            term=term.number,
            lease_s=term.lease_s,
            is_over=now_s >= term.free_s,
        )

    def _forget(self, host: str) -> bool:
        """Forget the term of a host of which no worker is left, which is told. False: there is none."""
        if (term := self._terms.pop(host, None)) is not None:
            self._end(host, term)
        return term is not None

    def _end(self, host: str, term: _Term) -> None:
        if not term.is_told:
            term.is_told = True
            self._ended.append((host, term.number))
