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
from contextlib import contextmanager, suppress

from torch.distributed import ProcessGroup

#: Addresses of both ends of a connection: this process's, and the peer's.
Ends = tuple[str, str]


class PeerSockets:
    """The connections of one group."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: frozenset[int] | None = None  # inodes that there were before the group began to form
        self._own: frozenset[int] = frozenset()  # inodes
        self._group: ProcessGroup | None = None
        self.is_cut = False  #: the agent broke the group off

    def begin(self) -> None:
        """The group begins to form."""
        self._before = _sockets()

    def ends(self) -> list[Ends]:
        """Connections of this process that were made since then, also by others than the group."""
        return [ends for inode, ends in _connections() if inode not in (self._before or ())]

    def tie(self, known: Collection[Ends], group: ProcessGroup | None) -> None:
        """The group has formed.

        Args:
            known: what `ends` is at its members.
            group: aborted with its connections, if it is given.
        """
        with self._lock:
            both = {(far, near) for near, far in known}
            made = {inode for inode, ends in _connections() if ends in both}
            self._own, self._before = frozenset(made - (self._before or frozenset())), None
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
            _shut_down(self._own)
            group = self._group
        if group is not None:
            with suppress(RuntimeError):  # NCCL's way to say that the group was broken already
                group.abort()

    def end_connecting(self) -> None:
        """End the wait for a peer to connect, for NCCL's has no limit.

        What the script connects or listens on for the first time in these very moments ends as well.
        """
        with self._lock:
            if self._before is not None:
                _shut_down(_sockets() - self._before, ends_listening=True)


def _sockets() -> frozenset[int]:
    """Inodes of all sockets of this process."""
    return frozenset(inode for inode, _ in _listing())


def _listing() -> Iterator[tuple[int, int]]:
    """(inode, descriptor) of each socket."""
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # closed meanwhile
        if target.startswith("socket:["):
            yield int(target[8:-1]), int(name)


def _connections() -> Iterator[tuple[int, Ends]]:
    """The ends of each connection of this process to an Internet address, by its inode."""
    for inode, descriptor in _listing():
        with _copy_of(inode, descriptor) as copy:
            if copy is not None:
                with suppress(OSError):  # it is not connected
                    yield inode, (_address(copy.getsockname()), _address(copy.getpeername()))


def _address(name: tuple[str, int]) -> str:
    return f"{name[0].removeprefix('::ffff:')} {name[1]}"


def _shut_down(inodes: frozenset[int], ends_listening: bool = False) -> None:
    """Shut these connections down for all processes that hold them, not for this one alone.

    Those that wait for others to connect only with `ends_listening`.
    """
    for inode, descriptor in _listing():
        if inode in inodes:
            with _copy_of(inode, descriptor) as copy:
                if copy is not None and (ends_listening or not _listens(copy)):
                    with suppress(OSError):  # it is closed at the other end
                        copy.shutdown(socket.SHUT_RDWR)


def _listens(copy: socket.socket) -> bool:
    return bool(copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


@contextmanager
def _copy_of(inode: int, descriptor: int) -> Iterator[socket.socket | None]:
    """A copy of a socket of the Internet, which stays what it is while other threads close and open others.

    None: the descriptor is another socket's by now, or of another family.
    """
    try:
        copy = socket.socket(fileno=os.dup(descriptor))
    except OSError:
        yield None  # closed meanwhile
        return
    with copy:
        is_same = os.fstat(copy.fileno()).st_ino == inode
        yield copy if is_same and copy.family in (socket.AF_INET, socket.AF_INET6) else None
