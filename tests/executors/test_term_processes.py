"""The processes of one term: when their machine offers its devices."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import pytest

from swell.executors.gang.job_context import DeviceBinding
from swell.executors.local.agent.host import LocalHost
from swell.executors.local.devices import LocalNode
from swell.executors.node import term_processes as module
from swell.executors.node.term_processes import LocalTermProcesses
from swell.model.node import Node

NODE = LocalNode(
    Node(name="a", devices=("a/0",), kind="cpu"), {"a/0": DeviceBinding(torch_device="cpu", kind="cpu")}
)


@dataclass
class WarmingHost:
    """See `LocalHost`, as far as it matters here."""

    is_warming_up: bool = True
    bindings: dict[str, DeviceBinding] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def tell_kept(self) -> None:
        self.said.append("kept")

    def tell_all_kept(self) -> None:
        self.said.append("all")

    def offer(self, bindings: Mapping[str, DeviceBinding], nodes: tuple[Node, ...]) -> None:
        self.said += [f"devices{' ' if lack else ''}{lack}" for node in nodes for lack in node.lacks or ("",)]

    def tick(self) -> None: ...


def inside(host: WarmingHost, *lacks: str) -> LocalTermProcesses:
    return LocalTermProcesses(cast(LocalHost, host), NODE, lambda: lacks, lambda _: host.said.append("known"))


async def looked(one: LocalTermProcesses) -> None:
    """What the machine lacks is known."""
    assert one._looking is not None
    await one._looking
    await asyncio.sleep(0)


def test_devices_are_offered_when_workers_can_start_on_them() -> None:
    async def scene() -> None:
        host = WarmingHost()
        one = inside(host)
        one.offer()
        one.tick()
        assert host.said == ["kept", "all"]
        host.is_warming_up = False
        one.tick()
        one.tick()
        assert host.said == ["kept", "all", "devices", "known"]
        host.is_warming_up = True  # its zygote died and starts again: the devices stay
        one.tick()
        await looked(one)
        assert host.said == ["kept", "all", "devices", "known"]

    asyncio.run(scene())


def test_a_controller_that_is_new_to_a_warm_machine_hears_of_its_devices_at_once() -> None:
    async def scene() -> None:
        host = WarmingHost(is_warming_up=False)
        one = inside(host)
        one.offer()
        one.offer()
        await looked(one)
        host.is_warming_up = True  # its zygote has died: what runs there goes on
        one.offer()
        assert host.said == ["kept", "devices", "known"] * 3

    asyncio.run(scene())


def test_what_a_machine_lacks_is_said_with_its_devices_and_not_before() -> None:
    async def scene() -> None:
        host = WarmingHost()
        one = inside(host, "lacks module x")
        one.offer()
        await looked(one)
        assert host.said == ["kept", "all"]
        host.is_warming_up = False
        one.tick()
        assert host.said == ["kept", "all", "devices lacks module x", "known"]

    asyncio.run(scene())


def test_modules_that_take_too_long_do_not_keep_devices_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        monkeypatch.setattr(module, "WARM_WITHIN_S", 0.0)
        host = WarmingHost()
        inside(host).offer()
        assert host.said == ["kept", "devices", "known"]

    asyncio.run(scene())
