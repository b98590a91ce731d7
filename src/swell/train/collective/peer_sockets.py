"""What ties this process to its peers, and how another thread cuts it.

A collective that waits for a dead peer ends by itself only where the peer's death closes a connection. NCCL's
does not, and gloo's does not while a loader's process of some other peer holds a copy of it.

Neither tells which sockets are its own. While a group forms the script may open others, in the main thread.
So members compare: a connection is the group's if members made both ends of it while the group formed.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import suppress

from torch.distributed import ProcessGroup

#: Addresses of both ends of a connection: this process's, and the peer's; empty where there is none.
Ends = tuple[str, str]


class PeerSockets:
    """The connections of one group."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: frozenset[Ends] | None = None  # sockets that there were before the group began to form
        self._own: frozenset[Ends] = frozenset()
        self._group: ProcessGroup | None = None
        self.is_cut = False  #: the agent broke the group off

    def begin(self) -> None:
        """The group begins to form."""
        self._before = frozenset(ends for ends, _ in _sockets())

    def ends(self) -> list[Ends]:
        """Connections of this process that were made since then, also by others than the group."""
        return [ends for ends, _ in _sockets() if ends[1] and ends not in (self._before or ())]

    def tie(self, known: Collection[Ends], group: ProcessGroup | None) -> None:
        """The group has formed.

        Args:
            known: what `ends` is at its members.
            group: aborted with its connections, if it is given.
        """
        with self._lock:
            both = {(far, near) for near, far in known}
            self._own, self._before = frozenset(both.intersection(self.ends())), None
            self._group, is_late = group, self.is_cut
        if is_late:
            self.part()

    def release(self) -> None:
        """The group is left."""
        with self._lock:
            self._group, self._own = None, frozenset()

    def cut(self) -> None:
        """Make every wait for a peer fail, now and later. To be called from another thread."""
        self.is_cut = True
        self.part()

    def part(self) -> None:
        """What peers wait for from this worker fails."""
        with self._lock:
            for ends, copy in _sockets():
                if ends in self._own:
                    _shut_down(copy)
            group = self._group
        if group is not None:
            with suppress(RuntimeError):  # NCCL's way to say that the group was broken already
                group.abort()

    def end_connecting(self) -> None:
        """End the wait for a peer to connect, for NCCL's has no limit.

        What the script connects or listens on for the first time in these very moments ends as well.
        """
        with self._lock:
            for ends, copy in _sockets() if self._before is not None else ():
                if ends not in (self._before or ()):
                    _shut_down(copy)


def _sockets() -> Iterator[tuple[Ends, socket.socket]]:
    """Sockets of this process to Internet addresses, by their ends.

    Each is a copy, which stays what it is while other threads close and open others.
    """
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed meanwhile
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as copy:
                    if copy.family in (socket.AF_INET, socket.AF_INET6):
                        yield _ends_of(copy), copy


def _ends_of(copy: socket.socket) -> Ends:
    try:
        far = _address(copy.getpeername())
    except OSError:  # it is not connected
        far = ""
    return _address(copy.getsockname()), far


def _address(name: tuple[str, int]) -> str:
    return f"{name[0].removeprefix('::ffff:')} {name[1]}"


def _shut_down(copy: socket.socket) -> None:
    """Shut a connection down for all processes that hold it, not for this one alone."""
    with suppress(OSError):  # it is closed at the other end
        copy.shutdown(socket.SHUT_RDWR)
