"""Real workers train while their controller is dropped and another one comes: torch, gloo, one real host."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from tests.executors.forked_zygotes import fork_zygotes
from tests.executors.puppets import make_spec

from swell.executors.controller.controller import Controller
from swell.executors.controller.protocol import EventTold, Inventory
from swell.executors.gang.host_messages import FromHost
from swell.executors.gang.job_context import DeviceBinding
from swell.executors.local.agent.address import hold_lock
from swell.executors.local.agent.handshakes import Handshakes
from swell.executors.local.agent.host import LocalHost
from swell.executors.local.agent.options import DEFAULT_CALL, DEFAULT_PRELOAD, LOOPBACK, AgentOptions
from swell.executors.local.lines import LineLink
from swell.model.command import LaunchGang, StopGang
from swell.model.event import AnyEvent, GangEnded, GangStarted, Outcome, StepsReported, WorkersLost
from swell.model.target import Target
from swell.wire.messages import FromWorker, Hello

pytest.importorskip("torch")
SCRIPT = Path(__file__).with_name("train_tiny.py")
DEVICES, HOST, JOB = ("x/0", "x/1"), "x", "real"
LIMIT_S = 60.0


class Machine:
    """A host in an event loop, and a controller that may be dropped."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.events = folder, list[AnyEvent]()
        self.inventories: list[Inventory] = []
        self.is_open, self.is_full = True, False
        self.controller: Controller | None = None
        self._num_controllers = 0
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._start(folder / "state"))

    async def _start(self, state_dir: Path) -> None:
        state_dir.mkdir()
        self._lock_fd = hold_lock(state_dir)
        options = AgentOptions(state_dir=state_dir, preload=DEFAULT_PRELOAD, call=DEFAULT_CALL)
        self._options = options
        handshakes = Handshakes(self._identify)
        self.host = LocalHost(options, self._lock_fd, self._hear)
        port = await handshakes.listen(LOOPBACK)
        self.host.start(f"{LOOPBACK}:{port}")
        paced = DeviceBinding(torch_device="cpu", kind="paced@20000", pace_per_s=20000.0)
        self.host.offer(dict.fromkeys(DEVICES, paced))

    def _identify(self, link: LineLink, line: bytes) -> None:
        hello = msgspec.json.decode(line, type=FromWorker)
        assert isinstance(hello, Hello) and self.host.admit(link, hello)

    def _hear(self, message: FromHost) -> None:
        if self.controller is not None:
            self.controller.hear(HOST, message)

    def send(self, message: msgspec.Struct) -> None:
        """As a daemon's line."""
        if isinstance(message, EventTold):
            self.events.append(message.event)
        elif isinstance(message, Inventory):
            self.inventories.append(message)

    def come(self) -> None:
        """A controller that knows nothing."""

        async def join() -> None:
            self._num_controllers += 1
            boot_id = f"boot-{self._num_controllers}"
            self.controller = Controller(self._options.state_dir, self._options.gang_settings, boot_id)
            self.controller.await_hosts((HOST,))
            self.controller.attach(self, "session")
            self.controller.join_host(HOST, self.host)
            self.host.tell_kept()
            self.host.offer({})

        self._loop.run_until_complete(join())

    def perform(self, number: int, command: LaunchGang | StopGang) -> None:
        async def perform() -> None:
            assert self.controller is not None
            self.controller.perform(number, command)

        self._loop.run_until_complete(perform())

    def wait(self, is_so: Callable[[], bool]) -> None:
        async def come() -> None:
            while not is_so():
                self.host.tick()
                if self.controller is not None:
                    self.controller.tick()
                await asyncio.sleep(0.01)

        self._loop.run_until_complete(asyncio.wait_for(come(), LIMIT_S))

    def latest(self, kind: type[AnyEvent]) -> AnyEvent | None:
        return next((event for event in reversed(self.events) if isinstance(event, kind)), None)

    def steps(self) -> list[float]:
        """When worker 0 made its steps."""
        log = self.folder / "state" / "jobs" / JOB / "worker-0.log"
        return [float(line.split()[1]) for line in log.read_text().splitlines() if line.startswith("step ")]

    def close(self) -> None:
        self._loop.run_until_complete(self.host.shut_down())
        os.close(self._lock_fd)
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    fork_zygotes(monkeypatch)
    made = Machine(tmp_path)
    yield made
    made.close()


def begin(machine: Machine) -> GangStarted:
    script = machine.folder / "train_timed.py"
    told = "run.step(loss); print('step', time.monotonic(), flush=True)"
    script.write_text(SCRIPT.read_text().replace("run.step(loss)", told))
    spec = make_spec(entry=str(script), workdir=str(machine.folder), args=("0.01",))
    machine.come()
    target = Target(devices=DEVICES)
    machine.perform(1, LaunchGang(job_id=JOB, generation=1, target=target, spec=spec, total_steps=1_000_000))
    machine.wait(lambda: machine.latest(StepsReported) is not None)
    started = machine.latest(GangStarted)
    assert isinstance(started, GangStarted)
    return started


def num_steps(machine: Machine) -> int:
    report = machine.latest(StepsReported)
    return report.steps if isinstance(report, StepsReported) else 0


def test_workers_train_on_through_the_loss_of_their_controller(machine: Machine) -> None:
    started = begin(machine)
    machine.controller = None
    before = len(machine.steps())
    machine.wait(lambda: len(machine.steps()) >= before + 20)
    machine.events.clear()
    machine.come()
    (live,) = machine.inventories[-1].work.gangs
    assert (live.job_id, live.generation, live.devices) == (JOB, 1, DEVICES)
    assert tuple(machine.host._runs[JOB].pids.values()) == started.pids
    machine.wait(lambda: num_steps(machine) >= before + 40)
    pauses = sorted(late - early for early, late in pairwise(machine.steps()))
    print(f"longest time between two steps: {pauses[-1]:.3f} s; median {pauses[len(pauses) // 2]:.3f} s")
    machine.perform(1, StopGang(job_id=JOB, generation=2))
    machine.wait(lambda: machine.latest(GangEnded) is not None)
    end = machine.latest(GangEnded)
    assert isinstance(end, GangEnded) and end.outcome is Outcome.STOPPED


def test_a_worker_that_dies_while_no_controller_is_there_is_done_without(machine: Machine) -> None:
    started = begin(machine)
    machine.controller = None
    os.kill(started.pids[1], signal.SIGKILL)
    pids = machine.host._runs[JOB].pids
    machine.wait(lambda: len(pids) == 1)
    before, come_s = len(machine.steps()), time.monotonic()
    machine.come()
    machine.wait(lambda: machine.latest(WorkersLost) is not None)
    machine.wait(lambda: len(machine.steps()) >= before + 20)
    print(f"{machine.steps()[before] - come_s:.3f} s from the new controller to the next step")
    lost = machine.latest(WorkersLost)
    assert isinstance(lost, WorkersLost) and lost.devices == DEVICES[1:]
    machine.perform(1, StopGang(job_id=JOB, generation=2))
    machine.wait(lambda: machine.latest(GangEnded) is not None)
