"""The contract of node hosts on a host that has joined over TLS; and the host process, beside its head."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.eventually import PATIENCE_S
from tests.executors.agents import CALL
from tests.executors.host_contract import RUN, HostContract, begin
from tests.executors.puppets import make_spec
from tests.executors.test_host_door import FakeController
from tests.executors.turning_world import TurningWorld

from swell.executors.exit_status import STOPPED
from swell.executors.gang import host_messages as h
from swell.executors.gang.job_context import GangSettings
from swell.executors.leases import LeaseTimes
from swell.executors.local.agent.address import hold_lock
from swell.executors.local.agent.options import AgentOptions, PlatformSettings
from swell.executors.local.agent.run_logs import RunLogSet
from swell.executors.local.processes.listing import find_process, is_alive
from swell.executors.node import withdrawal
from swell.executors.node.options import NodeOptions
from swell.executors.node.process import HostProcess
from swell.executors.node.state import HostState, make_folder, read_record
from swell.executors.remote.certificate import CERTIFICATE_FILE, fingerprint_of
from swell.executors.remote.host_address import parse_address
from swell.executors.remote.join_tokens import TokenList, write_token
from swell.executors.remote.joining import JoinRefused
from swell.executors.remote.listening_door import ListeningDoor
from swell.executors.storage import MARK_FILE, write_mark
from swell.model.job import JobSpec
from swell.wire.lease_end import LEASE_FILE, LeaseWatch

LOOPBACK = "127.0.0.1"
NAME = "n1"
SETTINGS = PlatformSettings(preload=("msgspec",), call=CALL)


class PatientController(FakeController):
    """It does not say when a host is there on which workers cannot start yet."""

    def handle_host_message(self, host: str, message: h.FromHost) -> None:
        if not isinstance(message, h.DevicesOffered) or message.devices:
            super().handle_host_message(host, message)


class JoinedWorld(TurningWorld):
    """A door and a host process in one event loop."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        times: LeaseTimes,
        settings: PlatformSettings = SETTINGS,
    ) -> None:
        super().__init__()
        self._settings = settings
        self.devices: tuple[str, ...] = (f"{NAME}/0", f"{NAME}/1")
        self.controller = PatientController()
        self.heard = self.controller.heard
        self.state_dir = folder / "node"
        self._folder, self._monkeypatch, self._times = folder, monkeypatch, times
        self._loop.run_until_complete(self._start())
        self.wait(h.DevicesOffered)  # no controller has a worker started before

    async def _start(self) -> None:
        head = self._folder / "head"
        (head / "jobs").mkdir(parents=True)
        self.door = self._new_door("head")
        self.tokens = TokenList(head)
        self._token = self.tokens.add("t", fingerprint_of(head / CERTIFICATE_FILE))
        write_token(self._folder / "token", self._token)
        self._port = parse_address(await self.door.open()).port
        make_folder(self.state_dir)
        self._lock_fd = hold_lock(self.state_dir)
        self.start_host()

    def _new_door(self, session: str) -> ListeningDoor:
        options = AgentOptions(
            **msgspec.structs.asdict(self._settings),
            state_dir=self._folder / "head",
            listen=f"{LOOPBACK}:0",
            leases=self._times,
        )
        return ListeningDoor(self.controller, options, session)

    def meet_new_controller(self) -> None:
        former, num_heard = self.door, len(self.heard)
        self._loop.run_until_complete(former._handshakes.close())
        self.controller.heard = []  # it hears that its line is closed
        self.controller = PatientController()
        self.controller.heard = self.heard
        self.door = self._new_door("next head")
        self._loop.run_until_complete(self.door.open())
        former.close_lines()
        self.wait_until(lambda: any(isinstance(m, h.DevicesOffered) for m in self.heard[num_heard:]))

    def start_host(self, options: NodeOptions | None = None) -> None:
        self.options = options = options or NodeOptions(
            join=f"{LOOPBACK}:{self._port}",
            token_file=str(self._folder / "token"),
            name=NAME,
            devices="paced:2@400",
            advertise=LOOPBACK,
        )
        state = HostState(self.state_dir)
        self.process = HostProcess(options, options.node(), self._token, state, self._lock_fd)
        self.running = self._loop.create_task(self.process.run())

    @property
    def term(self) -> int:
        """The one that the host has begun last."""
        record = read_record(self.state_dir)
        assert record is not None
        return record.term

    def tell_now(self, message: h.ToHost) -> None:
        self.controller.hosts[NAME].tell(message)

    def tick(self) -> None:
        self.door.tick()

    def allow_no_ports(self) -> None:
        def refuse(*_: object, **named: object) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        self._monkeypatch.setattr("swell.executors.local.agent.host.hold_port", refuse)

    def make_job(self) -> JobSpec:
        return make_spec(entry=__file__, workdir=str(self._folder), args=("steps=1000000",))

    def close(self) -> None:
        self.process.leave()
        self.wait_until(self.running.done)
        self._loop.run_until_complete(self.door.close())
        assert not asyncio.all_tasks(self._loop), "each task has ended that was begun"
        os.close(self._lock_fd)
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JoinedWorld]:
    made = JoinedWorld(tmp_path, monkeypatch, LeaseTimes(lease_s=2.0, margin_s=2.0))
    yield made
    made.close()


class TestJoinedHost(HostContract):
    def test_a_worker_whose_process_was_stopped_is_killed_and_that_is_told(self, world: JoinedWorld) -> None:
        worker = begin(world)
        pid = world.wait(h.WorkerForked).pid
        world.wait(h.WorkerSaid)
        os.kill(pid, signal.SIGSTOP)
        exited = world.wait(h.WorkerExited)
        assert (exited.worker, exited.status) == (worker, STOPPED)


def test_it_is_set_as_the_platform_is_and_goes_without_modules_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = PlatformSettings(
        preload=("msgspec", "colorsys", "no_such.module"),
        call=CALL,
        gang_settings=GangSettings(log_bytes=1 << 16),
    )
    world = JoinedWorld(tmp_path, monkeypatch, LeaseTimes(lease_s=5.0, margin_s=2.0), settings)
    try:
        assert "this host lacks modules of `--preload`: install no_such.module" in caplog.text
        world.tell(h.OpenRun(run=RUN, job_id=RUN, spec=world.make_job()))
        world.wait(h.RunOpened)
        begin(world)
        found = find_process(world.wait(h.WorkerForked).pid)
        assert found is not None
        words = Path(f"/proc/{found.parent}/cmdline").read_bytes().split(b"\0")
        assert words[-3:] == [b"msgspec", b"colorsys", b""], "the zygote imports these"
    finally:
        world.close()


def test_when_its_lease_ends_every_process_is_gone_and_it_comes_back_without_them(
    world: JoinedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(world)
    pid = world.wait(h.WorkerForked).pid
    assert world.term == 1
    with monkeypatch.context() as patch:
        patch.setattr(world.door, "hear_aside", lambda host, body: None)
        world.wait_until(lambda: world.term == 2)
        assert not is_alive(pid), "the next term begins when every process of the former is gone"
        num_offers = sum(isinstance(message, h.DevicesOffered) for message in world.heard)
    world.wait(h.DevicesOffered, num_offers + 1)
    assert len(world.controller.lost) == 1
    world.tell(h.OpenRun(run=RUN, job_id=RUN, spec=world.make_job()))
    begin(world, world.wait(h.RunOpened, 2).first_worker)
    assert world.wait(h.WorkerForked, 2).pid != pid


def test_a_host_that_does_not_see_the_storage_is_refused_with_the_remedy(
    world: JoinedWorld, tmp_path: Path
) -> None:
    world.process.leave()
    world.wait_until(world.running.done)
    folder = tmp_path / "mounted"
    (folder / "jobs").mkdir(parents=True)
    write_mark(folder)
    world.start_host(msgspec.structs.replace(world.options, storage=str(folder)))
    world.wait_until(world.running.done)
    error = world.running.exception()
    assert isinstance(error, JoinRefused) and error.is_final
    assert str(folder) in str(error) and "`swell up --storage FOLDER`" in str(error)
    world.start_host(msgspec.structs.replace(world.options, storage=""))
    world.wait(h.DevicesOffered, 2)
    kept = read_record(world.state_dir)
    assert kept is not None and kept.storage == str(tmp_path / "head")
    assert kept.mark == (tmp_path / "head" / MARK_FILE).read_text()


def test_a_storage_that_hangs_takes_no_lease_and_ends_are_told_without_last_words(
    world: JoinedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swell.executors.local.agent.host.LAST_WORDS_S", 0.3)
    worker, answers = begin(world), threading.Event()
    world.wait(h.WorkerForked)

    def hang(*_: object) -> str:
        answers.wait(PATIENCE_S)
        return "too late"

    monkeypatch.setattr(RunLogSet, "end", hang)
    monkeypatch.setattr("swell.executors.storage._mark_of", hang)
    try:
        world.meet_new_controller()
        world.tell(h.SignalWorker(run=RUN, worker=worker, signal=signal.SIGKILL))
        assert world.wait(h.WorkerExited).log_tail == ""
        assert world.term == 1
    finally:
        answers.set()


def test_workers_see_the_lease_of_their_host_and_that_it_is_over(world: JoinedWorld) -> None:
    watch = LeaseWatch(str(world.state_dir / LEASE_FILE))
    assert not watch.is_over
    world.process.leave()
    world.wait_until(world.running.done)
    assert watch.is_over


def test_a_host_that_will_be_gone_says_so_and_leaves_when_nobody_needs_it(
    world: JoinedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle_s = 0.5
    monkeypatch.setattr(withdrawal, "IDLE_S", idle_s)
    worker = begin(world)
    world.wait(h.WorkerForked)
    world.process.leave_within(60.0, "its owner comes back")
    leaving = world.wait(h.HostLeaving)
    assert leaving.within_s == pytest.approx(60.0, abs=1.0) and leaving.why == "its owner comes back"
    world.meet_new_controller()
    assert 50.0 < world.wait(h.HostLeaving, 2).within_s < 60.0
    begun_s = time.monotonic()
    world.tell(h.SignalWorker(run=RUN, worker=worker, signal=signal.SIGKILL))
    world.wait(h.WorkerExited)
    world.wait_until(world.running.done)
    assert idle_s < time.monotonic() - begun_s < 20 * idle_s
    assert "it left the platform" in world.controller.lost[0]
