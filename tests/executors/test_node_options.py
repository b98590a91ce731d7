"""What a host process makes of its options, and an agent of where hosts join it."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import msgspec
import pytest

from swell.executors.local.agent.options import LOOPBACK, AgentOptions
from swell.executors.node import process
from swell.executors.node.options import NodeOptions, address_towards, read_options
from swell.executors.remote.host_address import HostAddress, check_address
from swell.model.errors import InvalidOption


def options(**more: str) -> NodeOptions:
    said = {"join": "127.0.0.1:7070", "token_file": "token", "devices": "paced:2@1", "name": "n1", **more}
    folder, read = read_options(["state", msgspec.json.encode(said).decode()])
    assert folder == Path("state").absolute()
    return read


def test_where_no_way_leads_to_the_head_now_it_is_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert address_towards(HostAddress("no-such-name.invalid")) == "127.0.0.1"


@pytest.mark.parametrize("text", ["n1", "0.0.0.0", "::", "10.9.0.11:7070", "10.9.0"])  # noqa: S104
def test_what_is_no_address_of_a_machine_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="--advertise"):
        check_address(text)


def test_a_machine_may_name_its_rack_and_its_islands() -> None:
    plain = options().node().node
    assert (plain.rack, plain.islands) == ("rack0", ())
    named = options(rack="r-17", devices="cpu:8/4").node().node
    assert (named.rack, named.islands) == ("r-17", ((4, 4),))
    assert named.devices == tuple(f"n1/{number}" for number in range(8))


def test_a_fault_of_the_host_itself_is_one_line_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(*_: object) -> None:
        raise TypeError("a fault")

    monkeypatch.setattr(process, "serve", fail)
    monkeypatch.setattr(sys, "argv", ["host", *options().command(tmp_path / "node")[4:]])
    with pytest.raises(SystemExit) as ended:
        process.main()
    assert str(ended.value).startswith("swell: this host has failed, and ends with its workers (TypeError: ")
    assert "start `swell node` again" in str(ended.value) and "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["local", "node0", "a b", "x" * 41])
def test_what_is_no_name_of_a_host_is_refused_before_the_head_is_asked(name: str) -> None:
    with pytest.raises(InvalidOption, match="choose another one with --name"):
        options(name=name)


def test_devices_are_called_what_they_are_or_as_their_owner_says() -> None:
    for found, kind in ((options().node(), "paced@1"), (options(kind="a100").node(), "a100")):
        assert found.node.kind == kind
        assert found.node.devices == tuple(found.bindings) == ("n1/0", "n1/1")
        assert {(one.kind, one.pace_per_s) for one in found.bindings.values()} == {(kind, 1.0)}


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("10.9.0.1:7070", "10.9.0.1"),
        ("10.9.0.1", "10.9.0.1"),
        ("[fd00::1]:7070", "fd00::1"),
        ("0.0.0.0:7070", LOOPBACK),
        ("[::]:7070", LOOPBACK),
        ("head.example:7070", LOOPBACK),
        ("", LOOPBACK),
    ],
)
def test_workers_of_other_hosts_reach_a_head_where_hosts_join_it(listen: str, address: str) -> None:
    """Where that is one address; else gangs have no workers on the head and on another host together."""
    assert AgentOptions(state_dir=Path(), listen=listen).reached_at == address
