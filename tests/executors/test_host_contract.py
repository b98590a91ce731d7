"""The contract of node hosts, on a machine that is made up and on this one."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.executors.agents import CALL
from tests.executors.fake_hosts import FakeHost
from tests.executors.host_contract import RUN, Heard, HostContract, begin
from tests.executors.listening import LIMIT_S
from tests.executors.puppets import make_spec

from swell.executors.gang.job_context import DeviceBinding
from swell.executors.hosts import messages as h
from swell.executors.local.agent.address import hold_lock
from swell.executors.local.agent.handshakes import Handshakes
from swell.executors.local.agent.host import LocalHost, hold_port
from swell.executors.local.agent.options import LOOPBACK, AgentOptions
from swell.executors.local.lines import LineLink
from swell.model.event import Outcome
from swell.model.job import JobSpec
from swell.wire.messages import FromWorker, Hello


class FakeWorld:
    def __init__(self) -> None:
        self.heard: list[h.FromHost] = []
        self.devices: tuple[str, ...] = ("x/0", "x/1")
        self.host = FakeHost("x", None, self.heard.append)
        self.host.offer()
        self._refusal: tuple[Outcome, str] | None = None

    def tell(self, message: h.ToHost) -> None:
        self.host.refusal = self._refusal
        if isinstance(message, h.OpenRun) and "/" in message.job_id:
            self.host.refusal = Outcome.FAILED, "no folder can be called so"
        self.host.tell(message)

    def wait(self, kind: type[Heard], num: int = 1) -> Heard:
        return [message for message in self.heard if isinstance(message, kind)][num - 1]

    def meet_new_controller(self) -> None:
        self.host.meet_new_controller()

    def allow_no_ports(self) -> None:
        self._refusal = Outcome.LOST, os.strerror(errno.EMFILE)

    def make_job(self) -> JobSpec:
        return make_spec()


class TestFakeHost(HostContract):
    @pytest.fixture
    def world(self) -> FakeWorld:
        return FakeWorld()


class LocalWorld:
    """The host of this machine, in an event loop that turns while the test waits."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heard: list[h.FromHost] = []
        self.devices: tuple[str, ...] = ("node0/0", "node0/1")
        self._folder, self._monkeypatch = folder, monkeypatch
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._start(folder / "state"))

    async def _start(self, state_dir: Path) -> None:
        state_dir.mkdir()
        self._lock_fd = hold_lock(state_dir)
        options = AgentOptions(state_dir=state_dir, preload=("msgspec",), call=CALL)
        handshakes = Handshakes(self._identify)
        self.host = LocalHost(options, self._lock_fd, self.heard.append)
        port = await handshakes.listen(LOOPBACK)
        self.host.start(f"{LOOPBACK}:{port}")
        paced = DeviceBinding(torch_device="cpu", kind="paced@400", pace_per_s=400.0)
        self.host.offer(dict.fromkeys(self.devices, paced))

    def _identify(self, link: LineLink, line: bytes) -> None:
        hello = msgspec.json.decode(line, type=FromWorker)
        assert isinstance(hello, Hello) and self.host.admit(link, hello)

    def tell(self, message: h.ToHost) -> None:
        async def tell() -> None:
            self.host.tell(message)

        self._loop.run_until_complete(tell())

    def wait(self, kind: type[Heard], num: int = 1) -> Heard:
        def found() -> list[Heard]:
            return [message for message in self.heard if isinstance(message, kind)]

        async def come() -> None:
            while len(found()) < num:
                self.host.tick()
                await asyncio.sleep(0.01)

        self._loop.run_until_complete(asyncio.wait_for(come(), LIMIT_S))
        return found()[num - 1]

    def meet_new_controller(self) -> None:
        async def meet() -> None:
            self.host.tell_kept()
            self.host.offer({})

        self._loop.run_until_complete(meet())

    def allow_no_ports(self) -> None:
        def refuse(*_: object, **named: object) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        self._monkeypatch.setattr("swell.executors.local.agent.host.hold_port", refuse)

    def make_job(self) -> JobSpec:
        return make_spec(workdir=str(self._folder), args=("steps=1000000",))

    def close(self) -> None:
        self._loop.run_until_complete(self.host.shut_down())
        os.close(self._lock_fd)
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class TestLocalHost(HostContract):
    @pytest.fixture
    def world(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalWorld]:
        made = LocalWorld(tmp_path, monkeypatch)
        yield made
        made.close()

    def test_a_silent_worker_whose_process_was_stopped_is_told_and_so_is_that_it_goes_on(
        self, world: LocalWorld
    ) -> None:
        worker = begin(world)
        pid = world.wait(h.WorkerForked).pid
        world.wait(h.WorkerSaid)
        os.kill(pid, signal.SIGSTOP)
        assert world.wait(h.WorkerHalted) == h.WorkerHalted(run=RUN, worker=worker, is_stopped=True)
        os.kill(pid, signal.SIGCONT)
        assert world.wait(h.WorkerHalted, 2) == h.WorkerHalted(run=RUN, worker=worker, is_stopped=False)

    def test_what_it_is_told_while_time_passes_may_open_a_run(
        self, world: LocalWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def hear(message: h.FromHost) -> None:
            world.heard.append(message)
            if isinstance(message, h.WorkerHalted):
                world.host.tell(h.OpenRun(run="other", job_id="other", spec=world.make_job()))

        begin(world)
        world.wait(h.WorkerSaid)
        monkeypatch.setattr(world.host, "_answer", hear)
        os.kill(world.wait(h.WorkerForked).pid, signal.SIGSTOP)
        assert world.wait(h.RunOpened, 2).run == "other"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_port_that_was_found_is_kept_for_rank_0(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with hold_port(address) as held:
        port = held.getsockname()[1]
        with socket.socket(family) as other, pytest.raises(OSError, match="in use"):
            other.bind((address, port))
        with socket.create_server((address, port), family=family):
            pass
