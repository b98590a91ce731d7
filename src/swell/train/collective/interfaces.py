"""Choice of the network interface for gloo and NCCL: the one with the address at which the host is reached.

torch's gloo and NCCL are given an interface, and take the address of it.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import socket
from collections.abc import Iterator
from typing import Any

from swell.wire import environ

LOOPBACK = "127.0.0.1"
LOOPBACK_INTERFACE = "lo"
GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"

#: Where an address lies in `sockaddr_in` and `sockaddr_in6` of Linux, and how many bytes it has.
_PLACES = {int(socket.AF_INET): (4, 4), int(socket.AF_INET6): (8, 16)}


class NoInterface(OSError):
    """No network interface of this machine has the address that its host names."""


def own_address() -> str:
    """The address at which workers on other hosts reach this one; loopback where there are none."""
    return os.environ.get(environ.ADDRESS, LOOPBACK)


def choose_interface(address: str) -> None:
    """Have gloo and NCCL use the interface with this address. Those that the user has chosen stay.

    Raises:
        NoInterface: none has it.
    """
    missing = [name for name in (GLOO, NCCL) if name not in os.environ]
    if not missing:
        return
    interface = interface_of(address)
    for name in missing:
        is_prefix = name == NCCL and interface != LOOPBACK_INTERFACE  # NCCL takes eth10 for eth1, too
        os.environ[name] = f"={interface}" if is_prefix else interface


def interface_of(address: str) -> str:
    """The interface with this IP address. Raises NoInterface."""
    wanted = _ip_address(address)
    if wanted.is_loopback:
        return LOOPBACK_INTERFACE
    known = list(_addresses())
    for interface, own in known:
        if ipaddress.ip_address(own) == wanted:
            return interface
    named = ", ".join(f"{own} ({interface})" for interface, own in known) or "no address at all"
    raise NoInterface(
        f"no network interface of this machine has the address {address}, at which its host says that it is "
        f"reached; it has {named}: start the host with `--advertise` and one of these, or give the job "
        f"{GLOO} and {NCCL}"
    )


def _ip_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(address)
    except ValueError as error:
        raise NoInterface(
            f"the host says that it is reached at {address!r}, which is no IP address"
        ) from error


class _Entry(ctypes.Structure):
    """`struct ifaddrs` of getifaddrs(3)."""


_Entry._fields_ = [
    ("next", ctypes.POINTER(_Entry)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
    ("netmask", ctypes.c_void_p),
    ("other", ctypes.c_void_p),
    ("data", ctypes.c_void_p),
]


def _addresses() -> Iterator[tuple[str, str]]:
    """(interface, address) of each address of this machine. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_Entry)()
    if libc.getifaddrs(ctypes.byref(first)):
        raise OSError(ctypes.get_errno(), "the network interfaces cannot be listed")
    try:
        entry: Any = first
        while entry:
            if (address := _address_at(entry.contents.address)) is not None:
                yield entry.contents.name.decode(), address
            entry = entry.contents.next
    finally:
        libc.freeifaddrs(first)


def _address_at(pointer: int | None) -> str | None:
    """The IP address in a `sockaddr`, as text; None if its family is neither IPv4 nor IPv6."""
    if pointer is None:
        return None
    family = ctypes.c_ushort.from_address(pointer).value
    if family not in _PLACES:
        return None
    offset, size = _PLACES[family]
    return socket.inet_ntop(family, ctypes.string_at(pointer + offset, size))
