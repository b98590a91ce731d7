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
    term: int | None  #: None: not known; it may be any one
    lease_s: float  #: the longest that was granted in the term
    is_over: bool


@dataclass(slots=True)
class _Term:
    number: int | None
    lease_s: float
    free_s: float
    #: Until then a lease may last that was granted in any term; -inf: none, or it was told that none does.
    unknown_until_s: float = -math.inf
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
        self._ended: list[tuple[str, int | None]] = []
        self._look_s = -math.inf  #: no term, of those that are not told, is over before

    def recall(self, records: Iterable[HostTerm], now_s: float) -> None:
        """What an earlier controller may have granted until now.

        What was known to be over is not told again by `take_ended`.
        """
        self._look_s = -math.inf
        for record in records:
            free_s = now_s if record.is_over else now_s + self._times.wait_after_s(record.lease_s)
            term = _Term(record.term, record.lease_s, free_s)
            term.is_refused = term.is_told = record.is_over
            if record.term is None and not record.is_over:
                term.unknown_until_s = free_s
            self._terms[record.host] = term

    def answer(self, host: str, asked: LeaseAsked, now_s: float) -> FromController:
        """`now_s`: read after the message had come. Write `records`, if changed, before this is sent."""
        term = self._terms.get(host)
        if term is None or term.number is None or asked.term > term.number:
            term = self._begin(host, asked.term, now_s)
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
            term.is_refused = True
            term.free_s = max(now_s, term.unknown_until_s)
            self._look_s = -math.inf

    def forget(self, host: str, now_s: float) -> None:
        """Another machine is to have the name, whose terms have numbers of their own.

        Raises:
            ValueError: workers of the machine that has it now may run.
        """
        if not self.is_free(host, now_s):
            raise ValueError(f"host {host!r} is not free: workers may run there")
        if (term := self._terms.pop(host, None)) is not None:
            self._end_unknown(host, term, now_s)
            self._end(host, term)

    def is_free(self, host: str, now_s: float) -> bool:
        """Whether no worker can run there: what it held may be given away, its jobs may run elsewhere."""
        term = self._terms.get(host)
        return term is None or now_s >= term.free_s

    def take_ended(self, now_s: float) -> list[tuple[str, int | None]]:
        """Hosts and their terms that are over, each term once. No worker started in one of them is left.

        None: of a host that was recalled without its term, every term in which this object granted nothing.
        """
        if now_s >= self._look_s:
            self._look(now_s)
        ended, self._ended = self._ended, []
        return ended

    def _look(self, now_s: float) -> None:
        """Which terms are over now, and when the next one may be."""
        for host, term in self._terms.items():
            self._end_unknown(host, term, now_s)
            if now_s >= term.free_s:
                self._end(host, term)
        waited_for = [term.free_s for term in self._terms.values() if now_s < term.free_s]
        unknown = [t.unknown_until_s for t in self._terms.values() if now_s < t.unknown_until_s]
        self._look_s = min([*waited_for, *unknown], default=math.inf)

    def records(self, now_s: float) -> list[HostTerm]:
        """Return the terms of all hosts, for `recall` of the next controller."""
        return [self.record(host, now_s) for host in self._terms]

    def record(self, host: str, now_s: float) -> HostTerm:
        """The same of one host, which has asked or was recalled."""
        term = self._terms[host]
        return HostTerm(
            host=host,
            term=None if now_s < term.unknown_until_s else term.number,
            lease_s=term.lease_s,
            is_over=now_s >= term.free_s,
        )

    def _begin(self, host: str, number: int, now_s: float) -> _Term:
        former = self._terms.get(host)
        term = self._terms[host] = _Term(number, 0.0, now_s)
        self._look_s = -math.inf
        if former is None:
            return term
        self._end_unknown(host, former, now_s)
        self._end(host, former)
        if now_s < former.unknown_until_s:
            term.lease_s, term.free_s = former.lease_s, former.free_s
            term.unknown_until_s = former.unknown_until_s
            term.is_refused = former.is_refused and former.number is None
        return term

    def _end(self, host: str, term: _Term) -> None:
        if term.number is not None and not term.is_told:
            term.is_told = True
            self._ended.append((host, term.number))

    def _end_unknown(self, host: str, term: _Term, now_s: float) -> None:
        if -math.inf < term.unknown_until_s <= now_s:
            term.unknown_until_s = -math.inf
            self._ended.append((host, None))
