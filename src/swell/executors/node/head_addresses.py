"""The addresses at which the head of a platform may be: its own, and that of the machine which takes over."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from swell.executors.remote.host_address import HostAddress
from swell.executors.remote.joining import CannotJoin

#: Between two rounds of tries.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0

log = logging.getLogger("swell.node")


class HeadAddresses:
    """Addresses of a platform's head, of which one is the present one: joined, or to be tried next."""

    def __init__(self, addresses: Sequence[HostAddress]) -> None:
        self._addresses = list(addresses)
        self._told: dict[HostAddress, str] = {}
        self._num_failed = 0
        self._pause_s = FIRST_PAUSE_S

    @property
    def present(self) -> HostAddress:
        return self._addresses[0]

    @property
    def others(self) -> tuple[HostAddress, ...]:
        return tuple(self._addresses[1:])

    def turn_to(self, head: HostAddress) -> None:
        """It is tried next."""
        self._addresses.remove(head)
        self._addresses.insert(0, head)

    def note_joined(self) -> None:
        self._told.clear()
        self._num_failed, self._pause_s = 0, FIRST_PAUSE_S

    def fail(self, error: CannotJoin) -> float:
        """Another one is the present one; seconds until it is to be tried.

        Raises:
            CannotJoin: to try again is of no use. That somebody else answers at one of several is no such
                case: a standby does, until it is the head.
        """
        if error.is_final and not (error.is_stranger and self.others):
            raise error
        if self._told.get(self.present) != str(error):
            self._told[self.present] = str(error)
            log.warning("%s; trying again", error)
        self._addresses.append(self._addresses.pop(0))
        self._num_failed += 1
        if self._num_failed % len(self._addresses):
            return 0.0
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s
