"""The controller's side: what a host held is free when its term is over, and no sooner."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from swell.executors.leases.lease_times import (
    ASKS_IN_LEASE,
    FromController,
    LeaseAsked,
    LeaseGranted,
    LeaseTimes,
    TermOver,
)
from swell.executors.rate_limited_log import RateLimitedLog

#: Stands for all hosts of an earlier controller of which the records are lost. No host can be called so.
UNRECORDED = "(hosts whose records are lost)"
#: A host that has missed so many questions in a row does not answer now.
MISSED = 3

log = logging.getLogger("swell.hosts")


class HostTerm(msgspec.Struct, frozen=True, kw_only=True):
    """What the next controller must know of a host: it is written before anyone acts on it."""

    host: str
    machine: str  #: to which the name belongs until the term is over
    term: int
    lease_s: float  #: the longest that was granted in the term
    is_over: bool  #: and told to be


@dataclass(slots=True)
class _Term:
    record: HostTerm
    free_s: float
    asked_s: float  #: when the host asked last, or was recalled
    is_recalled: bool  #: an earlier controller may have granted in it
    is_refused: bool = False  #: not granted any longer


class GrantedLeases:
    """Leases of all hosts, by names that no two machines share."""

    def __init__(
        self,
        times: LeaseTimes,
        now_s: Callable[[], float],
        write: Callable[[Sequence[HostTerm]], None] = lambda records: None,
        records: Iterable[HostTerm] = (),
    ) -> None:
        """
        Args:
            now_s: a clock that is at most `CLOCK_ERROR_SHARE` faster than real time, and never goes back. It
                may stand still while the controller does, so that what it did not hear counts as no silence.
            write: keeps the records for the next controller. Raises OSError.
            records: what an earlier controller may have granted until now.

        Raises:
            OSError: they cannot be written.
        """
        self._times, self._now_s, self._write = times, now_s, write
        self._terms: dict[str, _Term] = {}
        for record in records:
            free_s = now_s() + (0.0 if record.is_over else times.wait_after_s(record.lease_s))
            self._terms[record.host] = _Term(
                record, free_s, now_s(), is_recalled=True, is_refused=record.is_over
            )
        #: Hosts whose workers an earlier controller may have started.
        self.recalled = frozenset(host for host, term in self._terms.items() if not term.record.is_over)
        self._ended: list[tuple[str, int]] = []
        self._written: list[HostTerm] | None = None
        self._failures = RateLimitedLog()
        self._save()

    def machine_of(self, host: str) -> str:
        """Return the machine that may run workers of this host; empty: none, so any may have the name."""
        return "" if self.is_free(host) else self._terms[host].record.machine

    def is_recalled(self, host: str) -> bool:
        """Whether an earlier controller may have started workers in the host's present term."""
        return host in self._terms and self._terms[host].is_recalled

    def answer(self, host: str, machine: str, asked: LeaseAsked) -> FromController:
        """The answer may be sent as soon as this returns.

        Raises:
            ValueError: workers of another machine may run under this name, see `machine_of`.
            OSError: the records cannot be written. Nothing may be sent.
        """
        now_s = self._now_s()
        term = self._terms.get(host)
        if term is not None and term.record.machine != machine and not self.is_free(host):
            raise ValueError(f"host {host!r} is not free: workers may run there")
        if term is None or term.record.machine != machine or asked.term > term.record.term:
            term = self._begin(host, machine, asked.term)
        elif asked.term < term.record.term or now_s >= term.free_s:
            return TermOver(term=asked.term)
        term.asked_s = now_s
        if term.is_refused:
            return TermOver(term=asked.term)
        if term.record.lease_s < self._times.lease_s:
            term.record = msgspec.structs.replace(term.record, lease_s=self._times.lease_s)
        term.free_s = max(term.free_s, now_s + self._times.wait_s)
        self._save()
        return LeaseGranted(term=asked.term, asked_s=asked.asked_s, lease_s=self._times.lease_s)

    def _begin(self, host: str, machine: str, number: int) -> _Term:
        self._forget(host)
        record = HostTerm(host=host, machine=machine, term=number, lease_s=0.0, is_over=False)
        now_s = self._now_s()
        term = self._terms[host] = _Term(record, now_s, now_s, not self.is_free(UNRECORDED))
        return term

    def refuse(self, host: str) -> None:
        """Grant nothing more in the host's present term. It is over when its last lease is."""
        if (term := self._terms.get(host)) is not None:
            term.is_refused = True

    def end(self, host: str, number: int) -> None:
        """The host says that no worker of this term is left, and that none will be started in it."""
        term = self._terms.get(host)
        if term is not None and term.record.term == number:
            term.is_refused, term.free_s = True, self._now_s()

    def forget(self, host: str) -> bool:
        """Have no record of a host any longer. False: there is none, or workers may run there."""
        if host not in self._terms or not self.is_free(host):
            return False
        self._forget(host)
        self._save_if_possible()  # else it is gone from the file with the next lease
        return True

    def is_free(self, host: str) -> bool:
        """Whether no worker can run there: what it held may be given away, its jobs may run elsewhere."""
        term = self._terms.get(host)
        return term is None or self._now_s() >= term.free_s

    def is_late(self, host: str) -> bool:
        """Whether it has not asked for its lease when it should have, some times in a row."""
        term = self._terms.get(host)
        return (
            term is not None and self._now_s() >= term.asked_s + MISSED * self._times.lease_s / ASKS_IN_LEASE
        )

    def take_ended(self) -> list[tuple[str, int]]:
        """Hosts and their terms that are over, each term once. No worker started in one of them is left.

        To be called several times a second. That a term is over is written too, if it can be: else the next
        controller waits for it in vain.
        """
        now_s = self._now_s()
        for term in self._terms.values():
            if now_s >= term.free_s:
                self._end(term)
        ended, self._ended = self._ended, []
        if ended:
            if self.is_free(UNRECORDED):
                self._terms.pop(UNRECORDED, None)
            self._save_if_possible()
        return ended

    def _forget(self, host: str) -> None:
        """Forget the term of a host of which no worker is left, which is told."""
        if (term := self._terms.pop(host, None)) is not None:
            self._end(term)

    def _end(self, term: _Term) -> None:
        if not term.record.is_over:
            term.record = msgspec.structs.replace(term.record, is_over=True)
            self._ended.append((term.record.host, term.record.term))

    # ------------------------------------------------------------ records
    def _save(self) -> None:
        """Raises OSError."""
        records = [term.record for term in self._terms.values()]
        if records != self._written:
            self._write(records)
            self._written = records

    def _save_if_possible(self) -> None:
        try:
            self._save()
        except OSError as error:
            if self._failures.take():
                log.warning("cannot write the leases of hosts (%s): make room on the disk", error.strerror)
