"""The leases that this controller has granted, in a file that the next one reads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from swell.executors.awake_clock import AwakeClock
from swell.executors.leases.granted_leases import GrantedLeases, HostTerm
from swell.executors.leases.lease_times import LeaseTimes
from swell.executors.leases.messages import FromController, LeaseAsked, LeaseGranted
from swell.executors.remote.join_tokens import TOKENS_FILE
from swell.wire.whole_files import sync, write_whole

LEASES_FILE = "leases.json"
#: Stands for all hosts of an earlier controller of which the records are lost. No host can be called so.
UNRECORDED = "(hosts whose records are lost)"

log = logging.getLogger("swell.hosts")


class UnusableLeases(ValueError):
    """The file cannot be read as what it should be; the text names the remedy."""


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A name belongs to one machine until its lease is over."""

    machine: str
    granted: HostTerm


class LeaseBook:
    """Leases of all hosts, by their names. A grant is on the disk before it is sent."""

    def __init__(self, folder: Path, times: LeaseTimes, time_s: Callable[[], float]) -> None:
        """`time_s`: see `GrantedLeases`; it may go on while this process is stopped.

        Raises:
            UnusableLeases: the file cannot be read.
            OSError: it cannot be made.
        """
        self._path = folder / LEASES_FILE
        self._clock = AwakeClock(time_s)
        self._leases = GrantedLeases(times)
        has_file = self._path.exists()
        found = self._read() if has_file else _of_lost(folder, times)
        self._machines = {record.granted.host: record.machine for record in found}
        self._leases.recall([record.granted for record in found], self._clock.now_s())
        #: Hosts whose workers an earlier controller may have started, and which have not asked this one.
        self._unheard = {record.granted.host for record in found if not record.granted.is_over}
        #: Terms in which an earlier controller may have started them; None: in any.
        self._recalled = {r.granted.host: r.granted.term for r in found if not r.granted.is_over}
        self._written = {record.granted.host: record for record in found}
        self._is_behind = not has_file  #: what was to be written is not
        self._is_told = False  #: that it cannot be written
        self._write()
        if UNRECORDED in self._unheard:
            log.warning(
                "%s is gone, and hosts may have had leases: waiting %g s for what they may run",
                self._path,
                times.wait_s,
            )

    def machine_of(self, host: str) -> str:
        """Return the machine that may run workers of this host; empty: none, so any may have the name."""
        if self._leases.is_free(host, self._clock.now_s()):
            return ""
        return self._machines.get(host, "")

    @property
    def unheard(self) -> frozenset[str]:
        """Hosts on which workers of an earlier controller may run."""
        return frozenset(self._unheard)

    def is_recalled(self, host: str, machine: str, term: int) -> bool:
        """Whether an earlier controller may have had this host in this term, with workers."""
        known = self._recalled.get(host, term + 1)
        return known in (term, None) and self._machines.get(host, machine) == machine

    def answer(self, host: str, machine: str, asked: LeaseAsked) -> FromController:
        """May be sent as soon as this returns.

        Args:
            machine: to be the one that has the name, see `machine_of`.

        Raises:
            OSError: the file cannot be written. Nothing may be sent.
        """
        now_s = self._clock.now_s()
        if self._machines.get(host, machine) != machine:
            self._leases.forget(host, now_s)
            self._recalled.pop(host, None)
        self._machines[host] = machine
        answer = self._leases.answer(host, asked, now_s)
        if self._is_behind or self._record(self._leases.record(host, now_s)) != self._written.get(host):
            self._write()
        if isinstance(answer, LeaseGranted):
            if UNRECORDED in self._unheard:
                self._recalled.setdefault(host, asked.term)
            self._unheard.discard(host)
        return answer

    def forget(self, host: str) -> bool:
        """Have no record of a host any longer. False: there is none, or workers may run there."""
        now_s = self._clock.now_s()
        if host not in self._machines or not self._leases.is_free(host, now_s):
            return False
        self._leases.forget(host, now_s)
        del self._machines[host]
        try:
            self._write()
        except OSError as error:  # it is gone from the file with the next lease
            self._tell_unwritable(error)
        return True

    def end(self, host: str, term: int) -> None:
        """See `GrantedLeases.end`."""
        self._leases.end(host, term, self._clock.now_s())

    def refuse(self, host: str) -> None:
        """See `GrantedLeases.refuse`."""
        self._leases.refuse(host)

    def take_ended(self) -> list[tuple[str, int | None]]:
        """See `GrantedLeases.take_ended`; to be called several times a second.

        That a term is over is written too, if it can be: else the next controller waits for it in vain.
        """
        now_s = self._clock.now_s()
        ended = self._leases.take_ended(now_s)
        self._unheard = {host for host in self._unheard if not self._leases.is_free(host, now_s)}
        if UNRECORDED not in self._unheard:
            self._leases.forget(UNRECORDED, now_s)
        if ended:
            try:
                self._write()
            except OSError as error:
                self._tell_unwritable(error)
        return ended

    def _read(self) -> list[LeaseRecord]:
        try:
            return parse_leases(self._path.read_bytes())
        except (OSError, ValueError) as error:
            raise UnusableLeases(
                f"{self._path} cannot be read ({error}), and it says which hosts may still run workers: "
                "restore it, or remove it: the next agent waits for the length of a lease then"
            ) from error

    def _write(self) -> None:
        """Raises OSError."""
        terms = self._leases.records(self._clock.now_s())
        records = {term.host: self._record(term) for term in terms}
        if records == self._written and not self._is_behind:
            return
        self._is_behind = True
        write_whole(self._path, msgspec.json.encode(list(records.values())), is_synced=True)
        sync(self._path.parent)
        self._written, self._is_behind, self._is_told = records, False, False

    def _record(self, term: HostTerm) -> LeaseRecord:
        return LeaseRecord(machine=self._machines.get(term.host, ""), granted=term)

    def _tell_unwritable(self, error: OSError) -> None:
        if not self._is_told:
            self._is_told = True
            log.warning("cannot write %s (%s): make room on its disk", self._path, error.strerror)


def parse_leases(text: bytes) -> list[LeaseRecord]:
    """What such a file says. Raises ValueError."""
    try:
        return msgspec.json.decode(text, type=list[LeaseRecord])
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def _of_lost(folder: Path, times: LeaseTimes) -> list[LeaseRecord]:
    """Where there is no file. Who has given out no token has had no host."""
    if not (folder / TOKENS_FILE).exists():
        return []
    lost = HostTerm(host=UNRECORDED, term=None, lease_s=times.lease_s, is_over=False)
    return [LeaseRecord(machine="", granted=lost)]
