"""The leases that this controller has granted, in a file that the next one reads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from swell.executors.awake_clock import AwakeClock
from swell.executors.leases.granted_leases import GrantedLeases, HostTerm
from swell.executors.leases.lease_times import LeaseTimes
from swell.executors.leases.messages import FromController, LeaseAsked
from swell.executors.rate_limited_log import RateLimitedLog
from swell.executors.remote.join_tokens import TOKENS_FILE
from swell.wire.whole_files import sync, write_whole

LEASES_FILE = "leases.json"
#: Stands for all hosts of an earlier controller of which the records are lost. No host can be called so.
UNRECORDED = "(hosts whose records are lost)"

log = logging.getLogger("swell.hosts")


class UnusableLeases(ValueError):
    """The file cannot be read as what it should be; the text names the remedy."""


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
        #: What is in the file; None: it is not what should be there.
        self._written = self._read() if self._path.exists() else None
        found = _of_lost(folder, times) if self._written is None else self._written
        self._leases.recall(found.values(), self._clock.now_s())
        #: Hosts whose workers an earlier controller may have started.
        self.recalled = frozenset(host for host, term in found.items() if not term.is_over)
        self._failures = RateLimitedLog()
        self._write()
        if UNRECORDED in self.recalled:
            log.warning(
                "%s is gone, and hosts may have had leases: waiting %g s for what they may run",
                self._path,
                times.wait_s,
            )

    def machine_of(self, host: str) -> str:
        """See `GrantedLeases.machine_of`."""
        return self._leases.machine_of(host, self._clock.now_s())

    def is_recalled(self, host: str) -> bool:
        """Whether an earlier controller may have started workers in the host's present term."""
        return self._leases.is_recalled(host) or self.machine_of(UNRECORDED) != ""

    def answer(self, host: str, machine: str, asked: LeaseAsked) -> FromController:
        """May be sent as soon as this returns.

        Args:
            machine: to be the one that has the name, see `machine_of`.

        Raises:
            OSError: the file cannot be written. Nothing may be sent.
        """
        now_s = self._clock.now_s()
        answer = self._leases.answer(host, machine, asked, now_s)
        if self._written is None or self._leases.record(host, now_s) != self._written.get(host):
            self._write()
        return answer

    def forget(self, host: str) -> bool:
        """Have no record of a host any longer. False: there is none, or workers may run there."""
        if self.machine_of(host) or not self._leases.forget(host, self._clock.now_s()):
            return False
        self._write_if_possible()  # else it is gone from the file with the next lease
        return True

    def end(self, host: str, term: int) -> None:
        """See `GrantedLeases.end`."""
        self._leases.end(host, term, self._clock.now_s())

    def refuse(self, host: str) -> None:
        """See `GrantedLeases.refuse`."""
        self._leases.refuse(host)

    def take_ended(self) -> list[tuple[str, int]]:
        """See `GrantedLeases.take_ended`; to be called several times a second.

        That a term is over is written too, if it can be: else the next controller waits for it in vain.
        """
        ended = self._leases.take_ended(self._clock.now_s())
        if any(host == UNRECORDED for host, _ in ended):
            self._leases.forget(UNRECORDED, self._clock.now_s())
        if ended:
            self._write_if_possible()
        return ended

    def _read(self) -> dict[str, HostTerm]:
        try:
            terms = msgspec.json.decode(self._path.read_bytes(), type=list[HostTerm])
        except (OSError, msgspec.MsgspecError) as error:
            raise UnusableLeases(
                f"{self._path} cannot be read ({error}), and it says which hosts may still run workers: "
                "restore it, or remove it: the next agent waits for the length of a lease then"
            ) from error
        return {term.host: term for term in terms}

    def _write(self) -> None:
        """Raises OSError."""
        records = self._leases.records(self._clock.now_s())
        if records != self._written:
            self._written = None
            write_whole(self._path, msgspec.json.encode(list(records.values())), is_synced=True)
            sync(self._path.parent)
            self._written = records

    def _write_if_possible(self) -> None:
        try:
            self._write()
        except OSError as error:
            if self._failures.take():
                log.warning("cannot write %s (%s): make room on its disk", self._path, error.strerror)


def _of_lost(folder: Path, times: LeaseTimes) -> dict[str, HostTerm]:
    """Where there is no file. Who has given out no token has had no host."""
    if not (folder / TOKENS_FILE).exists():
        return {}
    term = HostTerm(host=UNRECORDED, machine=UNRECORDED, term=0, lease_s=times.lease_s, is_over=False)
    return {UNRECORDED: term}
