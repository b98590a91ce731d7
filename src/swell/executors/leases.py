"""Leases: how long a host runs workers without the controller, and when its devices are free.

The host's side: workers may run while the lease lasts, and are killed when it ends. A *term* is a time in
which the host's workers may run. It ends for good when its lease ends, or when the controller says so. The
next one, which has a higher number, begins when no worker of the former is left. A host process that starts
begins a term above all earlier ones, once no worker of an earlier one lives.

The controller's side: what a host held is free when its term is over, and no sooner.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from swell.executors.limited_log import LimitedLog

#: A clock that is neither set nor slewed gains or loses less than this share of the time: crystals, a tenth.
CLOCK_ERROR_SHARE = 1e-3
#: Asked for so often, several renewals in a row must be lost before a lease ends.
ASKS_IN_LEASE = 6


class LeaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Length of a lease and margin after it, as the controller decides them.

    Let e be `CLOCK_ERROR_SHARE`. In real time a host's lease ends at most `lease_s / (1 - e)` after it asked,
    and its workers are gone `margin_s` later. The controller grants after the host asked, and its clock shows
    at most `1 + e` times the real time. So nothing runs once its clock has counted
    `wait_s = (lease_s / (1 - e) + margin_s) * (1 + e)` since the grant.

    Raises:
        ValueError: a time is not above 0, or not finite.
    """

    lease_s: float = 30.0
    #: From the end of a lease until the last process is gone: the host notices, SIGKILL is sent, the kernel
    #: takes back memory and devices.
    margin_s: float = 5.0

    def __post_init__(self) -> None:
        for name, time_s in (("lease_s", self.lease_s), ("margin_s", self.margin_s)):
            if not 0 < time_s < math.inf:
                raise ValueError(
                    f"{name}={time_s:g} is no length of time; it must be above 0 s: set for example {name}=30"
                )

    @property
    def wait_s(self) -> float:
        """After a grant, by the controller's clock, until what the host held is free."""
        return self.wait_after_s(self.lease_s)

    def wait_after_s(self, lease_s: float) -> float:
        """The same for a lease of another length."""
        return (lease_s / (1 - CLOCK_ERROR_SHARE) + self.margin_s) * (1 + CLOCK_ERROR_SHARE)


# ---------------------------------------------------------------- what a host and the controller say
# A message may be lost, late, doubled or overtaken by others: each says all that it depends on. They are sent
# as they arise, and never again.
class LeaseMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A message between a host and the controller."""

    term: int


class LeaseAsked(LeaseMessage, frozen=True, kw_only=True):
    """A host asks for its lease, or for a longer one. No worker of an earlier term is left there."""

    asked_s: float  #: by the host's clock; the answer says it again


class LeaseGranted(LeaseMessage, frozen=True, kw_only=True):
    """The lease lasts this long *from when the host asked*."""

    asked_s: float  #: as in the question
    lease_s: float


class TermEnded(LeaseMessage, frozen=True, kw_only=True):
    """There will be no lease in this term or an earlier one: what its workers held may be with others."""


FromController = LeaseGranted | TermEnded


# ---------------------------------------------------------------- the host
#: Until the first grant says how long leases are.
FIRST_ASK_EVERY_S = 1.0


class HeldLease:
    """One term of a host. Times are of one clock of the host, read when the method is called.

    That clock is at most `CLOCK_ERROR_SHARE` slower than real time, never goes back, and counts the time in
    which the machine sleeps.
    """

    def __init__(self, term: int) -> None:
        """`term`: higher than every earlier one of the machine."""
        self.term = term
        #: Workers must do nothing at or after this time; -inf: at no time. Each worker has to see it.
        self.end_s = -math.inf
        self._is_begun = self._is_refused = False
        self._ask_every_s = FIRST_ASK_EVERY_S
        self._last_ask_s = -math.inf

    def is_held(self, now_s: float) -> bool:
        """Whether workers may run."""
        return self._is_begun and not self.is_over(now_s)

    def is_over(self, now_s: float) -> bool:
        """Whether workers must be killed."""
        return self._is_refused or (self._is_begun and now_s >= self.end_s)

    def open_line(self) -> None:
        """There is a new line to the controller: what was asked on the former may be lost."""
        self._last_ask_s = -math.inf

    def ask(self, now_s: float) -> LeaseAsked | None:
        """What to send now, if anything; to be called several times a second."""
        is_due = now_s >= self._last_ask_s + self._ask_every_s
        if not is_due or self.is_over(now_s):
            return None
        self._last_ask_s = now_s
        return LeaseAsked(term=self.term, asked_s=now_s)

    def note_answer(self, message: FromController, now_s: float) -> None:
        """Answers that come too late, or are about another term, change nothing."""
        if message.term != self.term or self.is_over(now_s):
            return
        if not isinstance(message, LeaseGranted):
            self._is_refused = True
            self.end_s = -math.inf
        elif (end_s := message.asked_s + message.lease_s) > now_s:
            self._is_begun = True
            self.end_s = max(self.end_s, end_s)
            self._ask_every_s = message.lease_s / ASKS_IN_LEASE


# ---------------------------------------------------------------- the controller
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
        self._failures = LimitedLog(log.warning)
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
            term = self._begin_term(host, machine, asked.term)
        elif asked.term < term.record.term or now_s >= term.free_s:
            return TermEnded(term=asked.term)
        term.asked_s = now_s
        if term.is_refused:
            return TermEnded(term=asked.term)
        if term.record.lease_s < self._times.lease_s:
            term.record = msgspec.structs.replace(term.record, lease_s=self._times.lease_s)
        term.free_s = max(term.free_s, now_s + self._times.wait_s)
        self._save()
        return LeaseGranted(term=asked.term, asked_s=asked.asked_s, lease_s=self._times.lease_s)

    def _begin_term(self, host: str, machine: str, number: int) -> _Term:
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
            self._failures("cannot write the leases of hosts (%s): make room on the disk", error.strerror)
