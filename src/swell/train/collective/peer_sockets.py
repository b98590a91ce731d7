"""What ties this process to its peers, and how another thread cuts it.

A collective that waits for a dead peer ends by itself only where the peer's death closes a connection. NCCL's
does not, and gloo's does not while a loader's process of some other peer holds a copy of it.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from torch.distributed import ProcessGroup


class PeerSockets:
    """The connections of the group of one generation, at most one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._generation: int | None = None
        self._cut_generations: set[int] = set()  #: by order
        self._own: frozenset[int] = frozenset()  # inodes
        self._before: frozenset[int] | None = None  # what there was before the connections now being made
        self._ends_listening = False  # also what waits there for a peer to connect
        self._group: ProcessGroup | None = None
        self._closed: frozenset[int] = frozenset()  # of the group's sockets, when it had formed

    def begin(self, generation: int) -> None:
        """A group is about to form."""
        with self._lock:
            self._generation, self._own, self._group = generation, frozenset(), None

    @contextmanager
    def connecting(self, ends_listening: bool = False) -> Iterator[None]:
        """Connections that are made meanwhile are the group's.

        Args:
            ends_listening: cut meanwhile, sockets that wait for others to connect are shut down as well. A
                server that a thread of the script opens meanwhile is one, too.
        """
        with self._lock:
            self._before, self._ends_listening = _sockets(), ends_listening
        try:
            yield
        finally:
            with self._lock:
                self._own, self._before, self._ends_listening = self._made(), None, False

    def tie(self, group: ProcessGroup | None) -> None:
        """The group has formed. It is to be aborted with its connections, if it is given."""
        with self._lock:
            self._group, is_late = group, self.is_cut
            self._closed = _closed_by_peers(self._own)
        if is_late:
            self.part()

    @property
    def is_cut(self) -> bool:
        """Whether the group, which may be forming yet, was cut by order."""
        return self._generation in self._cut_generations

    @property
    def is_torn(self) -> bool:
        """Whether a peer has closed a connection of the group since that formed."""
        with self._lock:
            return bool(_closed_by_peers(self._own) - self._closed)

    def release(self) -> None:
        """There is no group any more."""
        with self._lock:
            self._generation = self._group = None

    def part(self) -> None:
        """What peers wait for from this worker fails."""
        self._cut(self._generation, is_order=False)

    def cut(self, generation: int) -> None:
        """Make every wait for a peer of this generation's group fail, now and later.

        To be called from another thread, also before that group begins to form.
        """
        self._cut(generation, is_order=True)

    def _cut(self, generation: int | None, is_order: bool) -> None:
        with self._lock:
            if is_order and generation is not None:
                self._cut_generations.add(generation)
            if generation != self._generation:
                return
            made = self._made()
            _shut_down(made, listening=made - self._own if self._ends_listening else frozenset())
            group = self._group
        if group is not None:
            with suppress(RuntimeError):  # NCCL's way to say that the group was broken already
                group.abort()

    def _made(self) -> frozenset[int]:
        return self._own if self._before is None else self._own | (_sockets() - self._before)


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


def _closed_by_peers(inodes: frozenset[int]) -> frozenset[int]:
    """Those of these sockets from which nothing more will come."""
    found = {descriptor: inode for inode, descriptor in _listing() if inode in inodes}
    poll = select.poll()
    for descriptor in found:
        poll.register(descriptor, select.POLLRDHUP)
    gone = select.POLLRDHUP | select.POLLHUP | select.POLLERR
    return frozenset(found[descriptor] for descriptor, event in poll.poll(0) if event & gone)


def _shut_down(inodes: frozenset[int], listening: frozenset[int]) -> None:
    """Shut these connections down for all processes that hold them, not for this one alone.

    Of those that wait for others to connect, only `listening`.
    """
    for inode, descriptor in _listing():
        if inode in inodes:
            _shut_down_one(inode, descriptor, inode in listening)


def _shut_down_one(inode: int, descriptor: int, ends_listening: bool) -> None:
    """A copy of the descriptor stays what it is while the main thread closes and opens others."""
    try:
        copy = socket.socket(fileno=os.dup(descriptor))
    except OSError:
        return  # closed meanwhile
    with copy:
        is_same = os.fstat(copy.fileno()).st_ino == inode
        is_kept = copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and not ends_listening
        if is_same and copy.family in (socket.AF_INET, socket.AF_INET6) and not is_kept:
            try:
                copy.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed at the other end
