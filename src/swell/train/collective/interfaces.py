"""Choice of the network interface for gloo and NCCL: the one with the address at which the host is reached.

torch's gloo and NCCL are given an interface, and take the address of it.
"""

from __future__ import annotations

import ipaddress
import os
import socket

from swell.wire import environ

LOOPBACK = "127.0.0.1"
LOOPBACK_INTERFACE = "lo"
GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"


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
    try:
        wanted = ipaddress.ip_address(address)
    except ValueError as error:
        raise NoInterface(
            f"the host says that it is reached at {address!r}, which is no IP address"
        ) from error
    if wanted.is_loopback:
        return LOOPBACK_INTERFACE
    import psutil  # here, as only gangs over several hosts ask

    known = {
        one.address.partition("%")[0]: interface  # of a link-local one, its interface follows
        for interface, addresses in psutil.net_if_addrs().items()
        for one in addresses
        if one.family in (socket.AF_INET, socket.AF_INET6)
    }
    for own, interface in known.items():
        if ipaddress.ip_address(own) == wanted:
            return interface
    named = ", ".join(f"{own} ({interface})" for own, interface in known.items()) or "no address at all"
    raise NoInterface(
        f"no network interface of this machine has the address {address}, at which its host says that it is "
        f"reached; it has {named}: start the host with `--advertise` and one of these, or give the job "
        f"{GLOO} and {NCCL}"
    )
