"""What processes receive and send over TCP, as the kernel counts it for each connection.

The kernel keeps no network counters of a process. It has those of each TCP connection, which it lists over a
netlink socket (sock_diag(7)), and the connections of a process are among its open files. Datagrams, and what
bypasses the kernel (shared memory, InfiniBand), are not counted. Nor is what a connection carried between the
last reading and its end.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterable
from typing import NamedTuple

from swell.executors.local.limits.process_usage import GONE

#: One list of the machine's connections serves all gangs that are read within this time. A list takes
#: milliseconds of CPU time, however few connections there are.
LIST_EVERY_S = 2.0
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
#: Asks for `tcp_info` of each connection.
INET_DIAG_INFO = 2
#: All states of a connection but TIME_WAIT and LISTEN, in which it belongs to no process or carries nothing.
STATES = 0xFFF & ~(1 << 6) & ~(1 << 10)
_HEADER = struct.Struct("=IHHII")  # nlmsghdr
_REQUEST = struct.Struct("=BBBxI48x")  # inet_diag_req_v2
_MESSAGE_BYTES, _COOKIE_AT, _INODE_AT = 72, 44, 68  # inet_diag_msg
_ATTRIBUTE = struct.Struct("=HH")
_BYTES_ACKED_AT = 120  # of tcp_info; 64-bit counters: acknowledged by the peer, received
_SOCKET = "socket:["


class Traffic(NamedTuple):
    """Bytes of one or several connections."""

    received: int = 0
    sent: int = 0

    def plus(self, other: Traffic) -> Traffic:
        return Traffic(self.received + other.received, self.sent + other.sent)


class Connection(NamedTuple):
    """A TCP connection, by a number that no other one has."""

    cookie: bytes
    traffic: Traffic


class ConnectionTable:
    """All TCP connections of this network namespace, by inode; listed again every `LIST_EVERY_S`."""

    def __init__(self) -> None:
        self._listed: dict[int, Connection] = {}
        self._listed_s = float("-inf")

    def read(self) -> dict[int, Connection]:
        """Raises OSError: the kernel does not list them to this process."""
        now_s = time.monotonic()
        if now_s - self._listed_s >= LIST_EVERY_S:
            self._listed = {}
            for family in (socket.AF_INET, socket.AF_INET6):
                self._listed |= _list(family)
            self._listed_s = now_s
        return self._listed


class NetworkUsage:
    """Sums over the connections of some processes. Of one that has ended counts what was read of it last."""

    def __init__(self, table: ConnectionTable) -> None:
        self._table = table
        self._open: dict[bytes, Traffic] = {}
        self._ended = Traffic()

    def read(self, pids: Iterable[int]) -> tuple[int | None, int | None]:
        """Bytes that these processes, and those of readings before, have received and sent.

        None: not told.
        """
        try:
            listed = self._table.read()
        except OSError:
            return None, None
        found = dict(listed[inode] for inode in _inodes(pids) if inode in listed) if listed else {}
        for cookie in self._open.keys() - found.keys():
            self._ended = self._ended.plus(self._open[cookie])
        self._open = found
        total = self._ended
        for traffic in found.values():
            total = total.plus(traffic)
        return total.received, total.sent


def _inodes(pids: Iterable[int]) -> set[int]:
    """Return the sockets among the open files of these processes."""
    found: set[int] = set()
    for pid in pids:
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except GONE:
            continue
        for name in names:
            try:
                target = os.readlink(f"/proc/{pid}/fd/{name}")
            except GONE:
                continue
            if target.startswith(_SOCKET):
                found.add(int(target[len(_SOCKET) : -1]))
    return found


# ------------------------------------------------------------ the kernel's list
def _list(family: int) -> dict[int, Connection]:
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), STATES)
    header = _HEADER.pack(_HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 0, 0)
    found: dict[int, Connection] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG) as line:
        line.settimeout(1.0)
        line.send(header + request)
        while True:
            for kind, content in _messages(line.recv(1 << 16)):
                if kind == NLMSG_DONE:
                    return found
                if kind == NLMSG_ERROR:
                    number = -int.from_bytes(content[:4], "little", signed=True)
                    raise OSError(number, os.strerror(number))
                if (traffic := _traffic(content)) is not None:
                    inode = int.from_bytes(content[_INODE_AT : _INODE_AT + 4], "little")
                    found[inode] = Connection(content[_COOKIE_AT : _COOKIE_AT + 8], traffic)


def _messages(data: bytes) -> Iterable[tuple[int, bytes]]:
    while len(data) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(data)
        yield kind, data[_HEADER.size : length]
        data = data[(length + 3) & ~3 :]


def _traffic(content: bytes) -> Traffic | None:
    """Return what a connection has carried; None: a kernel before 4.1 does not tell."""
    rest = content[_MESSAGE_BYTES:]
    while len(rest) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(rest)
        if kind == INET_DIAG_INFO and length >= _ATTRIBUTE.size + _BYTES_ACKED_AT + 16:
            sent, received = struct.unpack_from("=QQ", rest, _ATTRIBUTE.size + _BYTES_ACKED_AT)
            return Traffic(received, sent)
        rest = rest[max(length + 3 & ~3, _ATTRIBUTE.size) :]
    return None
