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
from tests.eventually import PATIENCE_S
from tests.executors.fake_hosts import CODEC, Line

from swell.executors.controller.controller import Controller
from swell.executors.controller.protocol import ExecutorCommand
from swell.executors.gang import host_messages as h
from swell.executors.gang.job_context import DeviceBinding, GangSettings
from swell.executors.local.agent.address import hold_lock
from swell.executors.local.agent.handshakes import Handshakes
from swell.executors.local.agent.host import LocalHost
from swell.executors.local.agent.options import DEFAULT_CALL, DEFAULT_PRELOAD, LOOPBACK, AgentOptions
from swell.model.event import Event
from swell.wire.lease_end import LEASE_FILE, ShownEnd
from swell.wire.messages import Hello

#: For tests that fail; a zygote has to import torch first.
PACED = DeviceBinding(torch_device="cpu", kind="paced@2000", pace_per_s=2000.0)
#: No lease ends here.
ALWAYS_S = 1e300
Wanted = TypeVar("Wanted", bound=Event)


@dataclass
class OnHost:
    """One host, as the controller sees it."""

    host: LocalHost
    lock_fd: int
    is_gone: bool = False

    def tell(self, message: h.ToHost) -> None:
        def tell() -> None:
            if not self.is_gone:
                self.host.tell(CODEC[0].decode(msgspec.json.encode(message)))

        asyncio.get_running_loop().call_soon(tell)


class JoinedEngine:
    """Host `head` is the controller's machine, whose state folder is the storage. Devices are `NAME/i`.

    What hosts say is kept in `said`, by host.
    """

    def __init__(
        self,
        folder: Path,
        call: str = DEFAULT_CALL,
        preload: tuple[str, ...] = DEFAULT_PRELOAD,
        gang_settings: GangSettings | None = None,
        binding: DeviceBinding = PACED,
        limit_s: float = PATIENCE_S,
    ) -> None:
        self.folder, self._call, self._preload, self._binding = folder, call, preload, binding
        self._gang_settings, self._limit_s = gang_settings or GangSettings(), limit_s
        self.line = Line()
        self.hosts: dict[str, OnHost] = {}
        self.said: dict[str, list[h.FromHost]] = {}
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
        self.controller = Controller(state_dir, self._gang_settings, "boot")
        self.controller.attach(self.line, "session")

    def state_dir(self, name: str) -> Path:
        return self.folder / name / "state"

    def job_folder(self, job_id: str) -> Path:
        return self.state_dir("head") / "jobs" / job_id

    def join(self, name: str, num_devices: int = 2, address: str = "") -> None:
        """`address`: where workers of other hosts reach those of this one."""
        self.run(lambda: self._join(name, num_devices, address))

    async def _join(self, name: str, num_devices: int, address: str) -> None:
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
            advertise=address,
        )
        self.said[name] = []

        def hear(message: h.FromHost) -> None:
            decoded = CODEC[1].decode(msgspec.json.encode(message))
            self.said[name].append(decoded)
            self._loop.call_soon(
                lambda: None if end.is_gone else self.controller.handle_host_message(name, decoded)
            )

        host = LocalHost(options, lock_fd, hear)
        handshakes = Handshakes(msgspec.json.Decoder(Hello).decode, host.admit)
        self.hosts[name] = end = OnHost(host, lock_fd)
        self.controller.join_host(name, end.tell)
        host.start(f"{LOOPBACK}:{await handshakes.listen(LOOPBACK)}")
        host.offer({f"{name}/{number}": self._binding for number in range(num_devices)})

    def lose(self, name: str) -> None:
        """All its processes end, and then the controller hears of it."""
        end = self.hosts.pop(name)
        end.is_gone = True
        self.run(end.host.shut_down)
        os.close(end.lock_fd)
        self.run(lambda: self.controller.lose_host(name, f"host {name!r} is gone"))

    def perform(self, command: ExecutorCommand) -> None:
        self._num_commands += 1
        self.run(lambda: self.controller.perform(self._num_commands, command) and None)

    def wait(self, kind: type[Wanted], num: int = 1, **fields: object) -> Wanted:
        """The `num`th event of this kind whose fields have these values."""

        def found() -> list[Wanted]:
            return [
                event
                for event in self.line.events
                if isinstance(event, kind) and all(getattr(event, name) == fields[name] for name in fields)
            ]

        self.wait_until(lambda: len(found()) >= num)
        return found()[num - 1]

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        async def come() -> None:
            while not is_so():
                self._tick()
                await asyncio.sleep(0.02)

        try:
            self._loop.run_until_complete(asyncio.wait_for(come(), self._limit_s))
        except TimeoutError as error:
            raise AssertionError(f"it never came true; events: {self.line.events}") from error

    def _tick(self) -> None:
        for end in self.hosts.values():
            end.host.tick()
        self.controller.tick()

    def close(self) -> None:
        for name in list(self.hosts):
            self.lose(name)
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
