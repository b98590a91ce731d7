"""Whose program is at the other end of a loopback connection, as the kernel has it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST = 1  # NLM_F_REQUEST: one socket, found by its addresses
_ANY_COOKIE = 0xFFFFFFFF
_ALL_STATES = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_ASKED = struct.Struct("=BBBBI")  # struct inet_diag_req_v2, up to the socket
_PORTS = struct.Struct("!HH16s16s")  # struct inet_diag_sockid, up to the interface
_REST = struct.Struct("=III")
_UID_AT = _HEADER.size + 4 + _PORTS.size + _REST.size + 12
_ANSWER_BYTES = 4096
_TIMEOUT_S = 1.0

#: Where the state of an ASGI scope has the user id of the program at the other end of a Unix socket.
PEER_UID = "peer_uid"


def user_of(scope: Mapping[str, Any]) -> int | None:
    """User id of the program that sends the request of an ASGI scope. None: the kernel does not say."""
    client, server = scope.get("client"), scope.get("server")
    if client is not None and server is not None:
        return owner_of(client, server)
    uid: int | None = scope.get("state", {}).get(PEER_UID)
    return uid


def owner_of(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """User id of the program that connected from `client` to `server`, two addresses of IPv4.

    None: the kernel does not say, as where the other end is in another network namespace.
    """
    try:
        answer = _ask(_question(client, server))
    except OSError:
        return None
    if len(answer) < _UID_AT + 4 or _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    return int(struct.unpack_from("=I", answer, _UID_AT)[0])


def _question(client: tuple[str, int], server: tuple[str, int]) -> bytes:
    ends = _PORTS.pack(client[1], server[1], socket.inet_aton(client[0]), socket.inet_aton(server[0]))
    body = _ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ALL_STATES) + ends
    body += _REST.pack(0, _ANY_COOKIE, _ANY_COOKIE)
    return _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0) + body


def _ask(question: bytes) -> bytes:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_TIMEOUT_S)
        kernel.sendto(question, (0, 0))
        return kernel.recv(_ANSWER_BYTES)
