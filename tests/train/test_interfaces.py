"""Workers use the interface that has their host's address, unless the user has chosen one."""

from __future__ import annotations

import os
import socket

import psutil
import pytest

from swell.train.collective.process_groups import (
    GLOO,
    NCCL,
    NoInterface,
    choose_interface,
    interface_of,
    own_address,
)
from swell.wire import environ

#: For documentation (RFC 5737): no machine has it.
NOBODYS = "203.0.113.7"


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (GLOO, NCCL, environ.ADDRESS):
        monkeypatch.setenv(name, "to be restored")
        monkeypatch.delenv(name)


def test_each_address_of_this_machine_is_on_an_interface_that_has_it() -> None:
    families = (socket.AF_INET, socket.AF_INET6)
    for interface, addresses in psutil.net_if_addrs().items():
        for address in (each.address.partition("%")[0] for each in addresses if each.family in families):
            found = interface_of(address)
            assert address in [each.address.partition("%")[0] for each in psutil.net_if_addrs()[found]]
            assert found == interface or address.startswith("fe80"), "two may have the same local address"


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.3", "::1"])
def test_loopback_is_lo(address: str) -> None:
    choose_interface(address)
    assert (own_address(), os.environ[GLOO], os.environ[NCCL]) == ("127.0.0.1", "lo", "lo")


def test_what_the_user_has_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GLOO, "tun0")
    choose_interface("127.0.0.1")
    assert (os.environ[GLOO], os.environ[NCCL]) == ("tun0", "lo")
    monkeypatch.setenv(NCCL, "tun0")
    choose_interface(NOBODYS)  # of no interface here: it is translated on the way
    assert (os.environ[GLOO], os.environ[NCCL]) == ("tun0", "tun0")


def test_an_address_of_no_interface_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(NoInterface, match=rf"has the address {NOBODYS}.*it has .*127\.0\.0\.1 \(lo\)"):
        choose_interface(NOBODYS)
    with pytest.raises(NoInterface, match="'machine7', which is no IP address"):
        choose_interface("machine7")
