"""A controller and several real hosts in one process, each with its own state folder and loopback address.

Real zygotes and real workers, in an event loop that turns while the test waits. Their memory could be read
from host to host, and is not: workers tell hosts by their addresses.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
from tests.executors.fake_hosts import Line
from tests.executors.listening import Wanted

from swell.executors.controller.controller import Controller
from swell.executors.controller.protocol import ExecutorCommand
from swell.executors.gang.gang_settings import GangSettings
from swell.executors.gang.job_context import DeviceBinding
from swell.executors.hosts.messages import FromHost
from swell.executors.local.agent.address import hold_lock
from swell.executors.local.agent.handshakes import Handshakes
from swell.executors.local.agent.host import LocalHost
from swell.executors.local.agent.options import DEFAULT_CALL, DEFAULT_PRELOAD, LOOPBACK, AgentOptions
from swell.executors.local.lines import LineLink
from swell.model.event import AnyEvent
from swell.wire.messages import FromWorker, Hello

#: For tests that fail; a zygote has to import torch first.
LIMIT_S = 90.0
TICK_S = 0.02


class SeveralHosts:
    """Hosts `a`, `b`, ... at 127.0.0.2 and on, with devices `a/0`, `a/1`, ...

    What workers say is kept in `said`, by host.
    """

    def __init__(self, folder: Path, names: str = "abc", num_devices: int = 2) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self.controller = Controller(folder, GangSettings(), "boot")
        self._line = Line()
        self.controller.attach(self._line, "session")
        self.hosts: dict[str, LocalHost] = {}
        self.said: dict[str, list[FromHost]] = {}
        self._locks: dict[str, int] = {}
        self._num_commands = 0
        for number, name in enumerate(names):
            self._run(self._start(name, f"127.0.0.{2 + number}", num_devices))

    def folder(self, name: str, job: str) -> Path:
        """Of a job on a host."""
        return self._folder / name / "jobs" / job

    @property
    def events(self) -> list[AnyEvent]:
        return self._line.events

    async def _start(self, name: str, address: str, num_devices: int) -> None:
        state_dir = self._folder / name
        state_dir.mkdir()
        self._locks[name] = hold_lock(state_dir)
        options = AgentOptions(
            state_dir=state_dir, preload=DEFAULT_PRELOAD, call=DEFAULT_CALL, advertise=address
        )
        handshakes = Handshakes(lambda link, line: self._identify(name, link, line))
        host = LocalHost(options, self._locks[name], lambda told: self._hear(name, told))
        self.hosts[name], self.said[name] = host, []
        self.controller.join_host(name, host)
        port = await handshakes.listen(LOOPBACK)
        host.start(f"{LOOPBACK}:{port}")
        cpu = DeviceBinding(torch_device="cpu", kind="cpu")
        host.offer({f"{name}/{number}": cpu for number in range(num_devices)})

    def _identify(self, name: str, link: LineLink, line: bytes) -> None:
        hello = msgspec.json.decode(line, type=FromWorker)
        assert isinstance(hello, Hello) and self.hosts[name].admit(link, hello)

    def _hear(self, name: str, message: FromHost) -> None:
        if name in self.said:
            self.said[name].append(message)
            self.controller.hear(name, message)

    def perform(self, command: ExecutorCommand) -> None:
        async def perform() -> None:
            self._num_commands += 1
            self.controller.perform(self._num_commands, command)

        self._run(perform())

    def wait(self, kind: type[Wanted], job: str, generation: int | None = None) -> Wanted:
        """The first event of a kind about a job (and a generation)."""

        def found() -> list[Wanted]:
            return [
                event
                for event in self.events
                if isinstance(event, kind)
                and getattr(event, "job_id", "") == job
                and (generation is None or getattr(event, "generation", None) == generation)
            ]

        self.until(lambda: bool(found()), f"no {kind.__name__}; came: {self.events}")
        return found()[0]

    def until(self, is_so: Callable[[], bool], why: str = "it never came true") -> None:
        async def come() -> None:
            while not is_so():
                for host in self.hosts.values():
                    host.tick()
                self.controller.tick()
                await asyncio.sleep(TICK_S)

        try:
            self._run(asyncio.wait_for(come(), LIMIT_S))
        except TimeoutError as error:
            raise AssertionError(why) from error

    def lose(self, name: str) -> None:
        """A machine is switched off: all its processes end at once, and it says nothing any more."""
        host = self.hosts.pop(name)
        del self.said[name]
        self._run(host.shut_down())
        os.close(self._locks.pop(name))

        async def lose() -> None:
            self.controller.lose_host(name, "its machine is gone")

        self._run(lose())

    def close(self) -> None:
        for name in list(self.hosts):
            self._run(self.hosts.pop(name).shut_down())
            os.close(self._locks.pop(name))
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        self._loop.run_until_complete(work)
