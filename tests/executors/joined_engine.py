"""The engine of this machine and hosts that have joined, in one process.

What they say goes through JSON and takes a turn of the loop, as over a network; the processes are real.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
from tests.executors.fake_hosts import CODEC, Line

from swell.executors.controller.controller import Controller
from swell.executors.controller.protocol import ExecutorCommand
from swell.executors.gang.gang_settings import GangSettings
from swell.executors.gang.job_context import DeviceBinding
from swell.executors.hosts import messages as h
from swell.executors.local.agent.address import hold_lock
from swell.executors.local.agent.handshakes import Handshakes
from swell.executors.local.agent.host import LocalHost
from swell.executors.local.agent.options import LOOPBACK, AgentOptions
from swell.executors.local.lines import LineLink
from swell.model.event import Event
from swell.wire.lease_end import LEASE_FILE, ShownEnd
from swell.wire.messages import Hello

LIMIT_S = 60.0
#: No lease ends here.
ALWAYS_S = 1e300
Wanted = TypeVar("Wanted", bound=Event)


@dataclass
class OnHost:
    """One host, as the controller sees it."""

    host: LocalHost
    lock_fd: int
    is_gone: bool = False

    @property
    def is_reached(self) -> bool:
        return not self.is_gone

    def tell(self, message: h.ToHost) -> None:
        def tell() -> None:
            if not self.is_gone:
                self.host.tell(CODEC[0].decode(msgspec.json.encode(message)))

        asyncio.get_running_loop().call_soon(tell)


class JoinedEngine:
    """Host `head` is the controller's machine, whose state folder is the storage. Devices are `NAME/i`."""

    def __init__(
        self, folder: Path, call: str, preload: tuple[str, ...], gang_settings: GangSettings
    ) -> None:
        self.folder, self._call, self._preload, self._gang_settings = folder, call, preload, gang_settings
        self.line = Line()
        self.hosts: dict[str, OnHost] = {}
        self._num_commands = 0
        self._loop = asyncio.new_event_loop()
        self.run(self._begin)

    def run(self, work: Callable[[], object]) -> None:
        """In the loop."""

        async def wrapped() -> None:
            result = work()
            if asyncio.iscoroutine(result):
                await result

        self._loop.run_until_complete(wrapped())

    def _begin(self) -> None:
        state_dir = self.state_dir("head")
        state_dir.mkdir(parents=True)
        self._controller = Controller(state_dir, self._gang_settings, "boot")
        self._controller.attach(self.line, "session")

    def state_dir(self, name: str) -> Path:
        return self.folder / name / "state"

    def join(self, name: str, num_devices: int = 2) -> None:
        self.run(lambda: self._join(name, num_devices))

    async def _join(self, name: str, num_devices: int) -> None:
        state_dir = self.state_dir(name)
        state_dir.mkdir(parents=True, exist_ok=True)
        lock_fd = hold_lock(state_dir)
        ShownEnd(state_dir / LEASE_FILE).show(ALWAYS_S)
        options = AgentOptions(
            state_dir=state_dir,
            preload=self._preload,
            call=self._call,
            gang_settings=self._gang_settings,
            joined_as="" if name == "head" else name,
            storage=str(self.state_dir("head")),
        )

        def hear(message: h.FromHost) -> None:
            decoded = CODEC[1].decode(msgspec.json.encode(message))
            self._loop.call_soon(lambda: None if end.is_gone else self._controller.hear(name, decoded))

        def identify(link: LineLink, line: bytes) -> None:
            assert end.host.admit(link, msgspec.json.decode(line, type=Hello))

        handshakes = Handshakes(identify)
        host = LocalHost(options, lock_fd, hear)
        self.hosts[name] = end = OnHost(host, lock_fd)
        self._controller.join_host(name, end)
        host.start(f"{LOOPBACK}:{await handshakes.listen(LOOPBACK)}")
        paced = DeviceBinding(torch_device="cpu", kind="paced@2000", pace_per_s=2000.0)
        host.offer({f"{name}/{number}": paced for number in range(num_devices)})

    def lose(self, name: str) -> None:
        """All its processes end, and then the controller hears of it."""
        end = self.hosts.pop(name)
        end.is_gone = True
        self.run(end.host.shut_down)
        os.close(end.lock_fd)
        self.run(lambda: self._controller.lose_host(name, f"host {name!r} is gone"))

    def perform(self, command: ExecutorCommand) -> None:
        self._num_commands += 1
        self.run(lambda: self._controller.perform(self._num_commands, command) and None)

    def wait(self, kind: type[Wanted], num: int = 1) -> Wanted:
        """The `num`th event of this kind."""

        def found() -> list[Wanted]:
            return [event for event in self.line.events if isinstance(event, kind)]

        self.wait_until(lambda: len(found()) >= num)
        return found()[num - 1]

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        async def come() -> None:
            while not is_so():
                self._tick()
                await asyncio.sleep(0.02)

        try:
            self._loop.run_until_complete(asyncio.wait_for(come(), LIMIT_S))
        except TimeoutError as error:
            raise AssertionError(f"it never came true; events: {self.line.events}") from error

    def _tick(self) -> None:
        for end in self.hosts.values():
            end.host.tick()
        self._controller.tick()

    def close(self) -> None:
        for name in list(self.hosts):
            self.lose(name)
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
