"""The processes of one term: when their machine offers its devices."""

from __future__ import annotations

from pathlib import Path

from swell.executors.gang.job_context import DeviceBinding
from swell.executors.hosts.messages import DevicesOffered, FromHost
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import LocalNode
from swell.executors.node.terms import TermHost
from swell.model.node import Node

NODE = LocalNode(
    Node(name="a", devices=("a/0",), kind="cpu"), {"a/0": DeviceBinding(torch_device="cpu", kind="cpu")}
)


class WarmingHost(TermHost):
    """Its zygote is not started: the test says whether that is warm."""

    is_cold = True

    def __init__(self) -> None:
        options = AgentOptions(state_dir=Path("none"), storage="none")
        super().__init__(options, -1, self._hear, NODE)
        self.said: list[list[str]] = []

    @property
    def is_warming_up(self) -> bool:
        return self.is_cold

    def _hear(self, message: FromHost) -> None:
        assert isinstance(message, DevicesOffered)
        self.said.append(sorted(message.devices))


def test_devices_are_offered_when_workers_can_start_on_them() -> None:
    host = WarmingHost()
    host.present()
    host.tick()
    assert host.said == [[]]
    host.is_cold = False
    host.tick()
    host.tick()
    assert host.said == [[], ["a/0"]]
    host.is_cold = True  # its zygote died and starts again: the devices stay
    host.tick()
    assert host.said == [[], ["a/0"]]
