"""What the head is told of machines that join and go."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.executors.fake_hosts import Fleet, launch
from tests.executors.puppets import JOB

from swell.executors.controller.controller import Controller
from swell.executors.controller.protocol import DevicesWanted, Inventory, RemoveHost
from swell.executors.gang.host_messages import HostLeaving
from swell.executors.local.agent.door import DoorError
from swell.executors.local.agent.host import LocalHost
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.agent.process import WorkerSupervisor
from swell.executors.local.lines import LineLink
from swell.model.cluster import Cluster
from swell.model.event import (
    AnyEvent,
    GangEnded,
    NodeJoined,
    NodeLost,
    NodeWarned,
    WorkersLost,
)
from swell.model.node import Node


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """The platform's own machine, and two that have joined."""
    fleet = Fleet(tmp_path, "l")
    for name in "ab":
        fleet.join_machine(name)
    return fleet


def about_nodes(fleet: Fleet) -> list[tuple[str, str]]:
    told = []
    for event in fleet.events:
        match event:
            case NodeJoined(node=node):
                told.append(("joined", node.name))
            case NodeLost(name=name, cause=cause):
                told.append((cause, name))
    return told


def folded(events: Iterable[AnyEvent]) -> Cluster:
    """The cluster as a head has it that hears these. Raises ValueError if a device is on two nodes."""
    cluster = Cluster()
    for event in events:
        if isinstance(event, NodeJoined):
            cluster = cluster.with_node(event.node)
        elif isinstance(event, NodeLost):
            cluster = cluster.without_node(event.name)
    return cluster


def inventory_of(fleet: Fleet) -> Inventory:
    """That a daemon hears which comes now."""
    fleet.attach("another")
    assert fleet.inventory is not None
    return fleet.inventory


def test_a_host_that_is_about_to_go_is_a_warning_of_its_nodes(fleet: Fleet) -> None:
    before_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    fleet.controller.handle_host_message("a", HostLeaving(within_s=30.0, why="its owner needs it"))
    (warned,) = (event for event in fleet.events if isinstance(event, NodeWarned))
    assert (warned.name, warned.why) == ("a", "its owner needs it") and warned.until_s is not None
    assert warned.until_s - before_s == pytest.approx(30.0, abs=5.0), "by the clock of `at_s`"
    fleet.controller.handle_host_message(
        "local", HostLeaving(within_s=30.0, why="it has no nodes of its own")
    )
    assert sum(isinstance(event, NodeWarned) for event in fleet.events) == 1
    fleet.controller.handle_host_message("a", HostLeaving(within_s=1e300, why="x" * 3_000_000))
    *_, warned = (event for event in fleet.events if isinstance(event, NodeWarned))
    assert warned.until_s is not None and warned.until_s - before_s < 400 * 86400 and len(warned.why) == 500


def test_a_loss_is_told_with_its_cause_before_what_it_does_to_gangs(fleet: Fleet) -> None:
    fleet.perform(launch("a/0", "b/0"))
    fleet.lose("b", "its lease is over")
    kinds = [type(event) for event in fleet.events if isinstance(event, NodeLost | WorkersLost)]
    assert kinds == [NodeLost, WorkersLost]
    fleet.lose("a", "its lease is over")
    ends = [type(event) for event in fleet.events if isinstance(event, NodeLost | GangEnded)]
    assert ends[-2:] == [NodeLost, GangEnded]
    assert about_nodes(fleet)[-2:] == [("its lease is over", "b"), ("its lease is over", "a")]
    assert inventory_of(fleet).work.nodes == ()


def test_a_name_or_a_device_that_another_host_has_is_not_taken(fleet: Fleet) -> None:
    """The door keeps such hosts out; nothing is given twice if it does not."""
    other = fleet.hosts["b"]
    thief = Node(name="a", devices=("b/0",), kind="cpu")
    double = Node(name="c", devices=("a/0",), kind="cpu")
    bindings = other.offered | {"a/0": other.offered["b/0"]}
    other.offer_these(bindings, (other.node(), thief, double))
    assert about_nodes(fleet) == [("joined", "a"), ("joined", "b")]
    fleet.perform(launch("a/0"))
    assert [worker.host.name for worker in fleet.workers(JOB)] == ["a"]


@settings(max_examples=100, deadline=None)
@given(
    fates=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["join", "lose", "offer 2", "offer 4", "empty"])),
        max_size=30,
    )
)
def test_the_events_and_the_inventory_agree_whatever_comes_and_goes(fates: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), "l")
        for name, fate in fates:
            host = fleet.hosts.get(name)
            match fate.split():
                case ["join"] if host is None:
                    fleet.join_machine(name)
                case ["lose"] if host is not None:
                    fleet.lose(name)
                case ["offer", num] if host is not None:
                    host.offer(int(num), nodes=(host.node(int(num)),))
                case ["empty"] if host is not None:
                    host.offer(0)
            there = {node.name: node for node in folded(fleet.events).nodes}
            assert there == {node.name: node for node in inventory_of(fleet).work.nodes}


class DoorAjar:
    """Knows one host."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    def remove(self, host: str) -> None:
        if host != "a":
            raise DoorError(f"no host {host!r} has joined")
        self.removed.append(host)

    def want_devices(self, num: int) -> None:
        self.wanted = num

    def tick(self) -> None:
        pass


def test_parts_of_an_agent_that_fail_at_each_tick_are_told_once_and_stop_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ticks ten times a second: the log would fill the disk."""
    ticks = Counter[str]()

    def failing(name: str) -> Callable[..., None]:
        def tick(*_: object) -> None:
            ticks[name] += 1
            raise RuntimeError(f"a fault of the {name}")

        return tick

    monkeypatch.setattr(LocalHost, "tick", failing("host"))
    monkeypatch.setattr(Controller, "tick", failing("controller"))
    monkeypatch.setattr(DoorAjar, "tick", failing("door"))

    async def check() -> None:
        door: Any = DoorAjar()
        options = AgentOptions(state_dir=tmp_path, preload=(), call="")
        supervisor = WorkerSupervisor(options, -1, lambda *_: door)
        for _ in range(5):
            supervisor._tick()

    asyncio.run(check())
    assert ticks == {"host": 5, "controller": 5, "door": 5}
    told = [record for record in caplog.records if record.exc_info]
    assert [str(record.exc_info[1]) for record in told if record.exc_info] == [
        "a fault of the host",
        "a fault of the controller",
        "a fault of the door",
    ]


def test_a_host_is_removed_at_the_door_of_the_agent(tmp_path: Path) -> None:
    """One that is gone already is no error, and without a door there is none to remove."""

    async def check() -> None:
        line = LineLink(lambda link, line: None)
        door: Any = DoorAjar()  # it is asked for nothing else
        options = AgentOptions(state_dir=tmp_path, preload=(), call="")
        for supervisor in (WorkerSupervisor(options, -1, lambda *_: door), WorkerSupervisor(options, -1)):
            for name in ("gone", "a"):
                supervisor._hear_daemon(line, msgspec.json.encode(RemoveHost(name=name)))
            supervisor._hear_daemon(line, msgspec.json.encode(DevicesWanted(num=3)))
        assert door.removed == ["a"] and door.wanted == 3

    asyncio.run(check())
