"""A worker of two processes on a real host: to its controller it is one."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.eventually import PATIENCE_S
from tests.executors.host_contract import RUN
from tests.executors.puppets import make_spec
from tests.executors.turning_world import TurningWorld

from swell.executors.exit_status import NOT_STARTED, STOPPED
from swell.executors.gang import host_messages as h
from swell.executors.gang.job_context import DeviceBinding, GangSettings
from swell.executors.local.agent.address import hold_lock
from swell.executors.local.agent.handshakes import Handshakes
from swell.executors.local.agent.host import LocalHost
from swell.executors.local.agent.options import LOOPBACK, AgentOptions
from swell.executors.local.processes.listing import is_alive
from swell.model.job import JobSpec
from swell.script_facts import ScriptFinding
from swell.wire import messages as m

DEVICES = ("local/0", "local/1")
CALL = "tests.executors.puppet_process:run_entry"
_from_agent = msgspec.json.Decoder(m.FromAgent).decode


class Scene(TurningWorld):
    """A host with one worker of two processes, which a test makes say what it likes."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.state_dir = folder, folder / "state"
        (self.state_dir / "jobs").mkdir(parents=True)
        self.heard = []
        self.lines: list[socket.socket] = []
        self._lock_fd = hold_lock(self.state_dir)
        self._loop.run_until_complete(self._start())
        self.tell(h.OpenRun(run=RUN, job_id=RUN, spec=self.make_job()))
        self.worker = self.wait(h.RunOpened).first_worker
        self.start(self.worker)

    async def _start(self) -> None:
        options = AgentOptions(
            state_dir=self.state_dir,
            preload=("msgspec",),
            call=CALL,
            gang_settings=GangSettings(standstill_s=1.0),
        )
        self.host = LocalHost(options, self._lock_fd, self.heard.append)
        self._handshakes = Handshakes(msgspec.json.Decoder(m.Hello).decode, self.host.admit)
        self.host.start(f"{LOOPBACK}:{await self._handshakes.listen(LOOPBACK)}")
        self.host.offer({name: DeviceBinding(torch_device="cpu", kind="cpu") for name in DEVICES})

    def tell_now(self, message: h.ToHost) -> None:
        self.host.tell(message)

    def tick(self) -> None:
        self.host.tick()

    def start(self, worker: int) -> None:
        self.tell(h.StartWorker(run=RUN, worker=worker, devices=DEVICES, environ={}))

    def close(self) -> None:
        for line in self.lines:
            line.close()
        self._loop.run_until_complete(self.host.shut_down())
        self._loop.run_until_complete(self._handshakes.close())
        os.close(self._lock_fd)
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def make_job(self) -> JobSpec:
        return make_spec(
            entry=__file__, workdir=str(self.folder), devices_per_worker=2, processes_per_worker=2
        )

    def begin(self) -> Scene:
        """Returns once both processes are there, and do what they are told."""
        assert isinstance(self.wait(h.WorkerSaid).message, m.Hello)
        for position in range(2):
            line = socket.socket(socket.AF_UNIX)
            line.connect(str(self.folder / f"socket-{self.worker}.{position}"))
            self.lines.append(line)
        return self

    def say(self, position: int, *messages: m.Message) -> None:
        """Have a process say this, and wait until the host has heard it."""
        for message in messages:
            self.lines[position].sendall(msgspec.json.encode(message) + b"\n")

    def exit(self, position: int, status: int) -> None:
        self.lines[position].sendall(f"exit {status}\n".encode())

    def send(self, message: m.FromAgent) -> None:
        self.tell(h.TellWorker(run=RUN, worker=self.worker, message=message))

    def heard_by(self, position: int, num: int) -> list[m.FromAgent]:
        """The first so many messages that the host has sent to a process."""
        path = self.folder / f"heard-{self.worker}.{position}"
        self.wait_until(lambda: path.exists() and path.read_bytes().count(b"\n") >= num)
        return [_from_agent(line) for line in path.read_bytes().splitlines()]

    def environ(self, position: int) -> dict[str, str]:
        text = (self.folder / f"environ-{self.worker}.{position}").read_text()
        return dict(json.loads(text))

    @property
    def said(self) -> list[Any]:
        """What the controller has heard of the worker, without its Hello."""
        messages = [told.message for told in self.heard if isinstance(told, h.WorkerSaid)]
        assert isinstance(messages[0], m.Hello)
        return messages[1:]

    def wait_said(self, num: int) -> list[Any]:
        self.wait(h.WorkerSaid, num + 1)
        return self.said

    def wait_gone(self) -> h.WorkerExited:
        """How it ended; no process is left, and nothing more is said of it."""
        exited = self.wait(h.WorkerExited)
        pids = [int(self.environ(position)["PID"]) for position in range(2) if self.lines]
        assert not any(map(is_alive, pids))
        assert exited is [one for one in self.heard if isinstance(one, h.OfWorker)][-1]
        return exited


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.chdir(tmp_path)  # paths of sockets are short
    made = Scene(tmp_path)
    yield made
    made.close()


FINDING = ScriptFinding(name="own-share", text="it differs", place="", holds=False)


def progress(steps: int) -> m.Progress:
    return m.Progress(generation=1, steps=steps, num_workers=1)


def test_each_process_knows_its_place_and_all_hear_the_same_in_the_same_order(scene: Scene) -> None:
    scene.begin()
    first, second = scene.environ(0), scene.environ(1)
    for name, values in {
        "RANK": ("0", "1"),
        "LOCAL_RANK": ("0", "1"),
        "WORLD_SIZE": ("2", "2"),
        "LOCAL_WORLD_SIZE": ("2", "2"),
        "GROUP_RANK": ("0", "0"),
        "SWELL_POSITION": ("0", "1"),
        "SWELL_PROCESSES": ("2", "2"),
    }.items():
        assert (first[name], second[name]) == values, name
    own = {"RANK", "LOCAL_RANK", "SWELL_POSITION", "PID"}
    alike = [{name: value for name, value in each.items() if name not in own} for each in (first, second)]
    assert {name for name in alike[0] if alike[0][name] != alike[1].get(name)} == {"SWELL_PROCESS"}
    assert len(first["SWELL_DEVICES"].split(",")) == 2
    with socket.create_server((first["MASTER_ADDR"], int(first["MASTER_PORT"]))):
        pass  # rank 0 gets the port that is held for it

    orders = [m.Abort(generation=number) for number in range(20)]
    scene.send(m.Welcome(mode="train", device="cuda:0", seed=0))
    for order in orders:
        scene.send(order)
    scene.say(0, m.Bound(generation=1, address="127.0.0.1:4711"))
    at_first, at_second = scene.heard_by(0, 21), scene.heard_by(1, 22)
    assert at_first[1:] == at_second[1:21] == orders
    assert [said[0].device for said in (at_first, at_second) if isinstance(said[0], m.Welcome)] == [
        "cuda:0",
        "cuda:1",
    ]
    assert at_second[21] == m.StoreAddress(generation=1, address="127.0.0.1:4711")
    assert scene.wait_said(1) == [m.Bound(generation=1, address="127.0.0.1:4711")]
    assert [type(told) for told in scene.heard if isinstance(told, h.WorkerForked)] == [h.WorkerForked]


def test_position_0_speaks_for_the_worker_once_all_are_ready(scene: Scene) -> None:
    scene.begin()
    scene.say(0, m.Ready(), progress(1))
    assert scene.wait_said(1) == [progress(1)], "the other one is not ready"
    found = m.DriftFound(step=3, num=1, message="weights", is_healed=True)
    failed = m.JoinFailed(generation=2, steps=3, message="no store")
    scene.say(
        1, progress(2), m.Finished(steps=9), m.Bound(generation=1, address="x:1"), found, failed, m.Ready()
    )
    assert scene.wait_said(4)[1:] == [found, failed, m.Ready()]


def test_the_sign_of_life_is_of_the_one_to_blame_and_only_while_all_give_one(scene: Scene) -> None:
    scene.begin()
    waits = m.Alive(generation=1, steps=5, awaits="peers", for_s=9.0)
    late = m.Alive(generation=1, steps=4, for_s=3.0, place="train.py:7 in step")
    later = m.Alive(generation=1, steps=4, for_s=4.0)
    scene.say(0, waits, waits, progress(5))
    assert scene.wait_said(1) == [progress(5)], "the other one is silent"
    scene.say(1, late)
    assert scene.wait_said(2)[1:] == [late]
    scene.say(1, late)
    scene.say(0, later)
    assert scene.wait_said(3)[2:] == [later]


def test_the_kill_of_one_process_ends_the_worker_and_what_the_others_say_of_it_is_not_told(
    scene: Scene,
) -> None:
    scene.begin()
    scene.say(0, m.Failed(message="connection reset by peer"), progress(7))
    scene.wait_said(1)
    os.kill(int(scene.environ(1)["PID"]), signal.SIGKILL)
    exited = scene.wait_gone()
    assert (exited.worker, exited.status) == (scene.worker, -signal.SIGKILL)
    assert scene.said == [progress(7)]
    host, port = (scene.environ(0)[name] for name in ("MASTER_ADDR", "MASTER_PORT"))
    with socket.create_server((host, int(port)), reuse_port=False):
        pass


@pytest.mark.parametrize("is_killed", [True, False])
def test_the_cause_is_told_though_the_end_of_another_is_known_before_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    monkeypatch.setattr("swell.executors.local.agent.worker_processes.CAUSE_WITHIN_S", PATIENCE_S)
    scene.begin()
    own = m.Failed(message="ZeroDivisionError", steps=4)
    if not is_killed:
        scene.say(1, own, m.ScriptFound(finding=FINDING))
        scene.wait_said(1)
    scene.say(0, m.Failed(message="connection reset by peer"), progress(8))
    scene.wait_said(1 + (not is_killed))
    scene.exit(0, 1)
    scene.wait_until(lambda: not is_alive(int(scene.environ(0)["PID"])))
    if is_killed:
        os.kill(int(scene.environ(1)["PID"]), signal.SIGKILL)
    else:
        scene.exit(1, 1)
    assert scene.wait_gone().status == (-signal.SIGKILL if is_killed else 1)
    assert [said for said in scene.said if isinstance(said, m.Failed)] == [own] * (not is_killed)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (m.Failed(message="ZeroDivisionError", steps=4), 1),
        (m.OutOfMemory(num_samples=8, message="no room"), 143),
        (m.NotCompared(finding=FINDING), 143),
        (m.Proved(steps=4, findings=(FINDING,), is_last=True), 143),
    ],
)
def test_the_last_words_of_position_1_are_the_workers_with_the_end_of_its_log(
    scene: Scene, words: m.Message, status: int
) -> None:
    scene.begin()
    scene.say(1, words)
    scene.exit(1, status)
    exited = scene.wait_gone()
    assert (exited.status, exited.log_tail) == (status, f"process {scene.worker}.1 prints")
    assert scene.said == [words]
    logs = scene.state_dir / "jobs" / RUN
    assert (logs / f"worker-{scene.worker}.log").read_text() == f"process {scene.worker}.0 prints\n"
    assert (logs / f"worker-{scene.worker}.1.log").read_text() == f"process {scene.worker}.1 prints\n"


@pytest.mark.parametrize(
    ("last", "status"), [(m.Finished(steps=9), 0), (m.Left(generation=1), 143), (None, 143)]
)
def test_processes_that_end_well_or_leave_wait_for_each_other(
    scene: Scene, last: m.Message | None, status: int
) -> None:
    scene.begin()
    if last is not None:
        scene.say(1, last)
    scene.exit(1, status)
    if last is not None:
        scene.wait_until(lambda: not is_alive(int(scene.environ(1)["PID"])))
        scene.say(0, last)
        assert scene.wait_said(1) == [last]
        scene.exit(0, status)
    assert scene.wait_gone().status == status, "without a word it would be waited for"


def test_a_proof_is_told_before_the_end_of_its_worker_whose_other_process_has_left(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swell.executors.local.agent.worker_processes.CAUSE_WITHIN_S", PATIENCE_S)
    scene.begin()
    proved = m.Proved(steps=4, is_last=True)
    scene.say(0, proved)
    scene.say(1, m.Left(generation=0))
    scene.exit(0, 143)
    scene.wait_until(lambda: not is_alive(int(scene.environ(0)["PID"])))
    scene.exit(1, 143)
    assert scene.wait_gone().status == 143
    assert scene.said == [proved]


@pytest.mark.parametrize("position", [0, 1])
def test_a_process_that_was_stopped_ends_its_worker(scene: Scene, position: int) -> None:
    scene.begin()
    os.kill(int(scene.environ(position)["PID"]), signal.SIGSTOP)
    assert scene.wait_gone().status == STOPPED


def test_signals_reach_all_processes(scene: Scene) -> None:
    scene.begin()
    scene.tell(h.SignalWorker(run=RUN, worker=scene.worker, signal=signal.SIGTERM))
    assert scene.wait_gone().status == -signal.SIGTERM


def test_a_new_controller_goes_on_with_the_worker_as_one(scene: Scene) -> None:
    scene.begin()
    scene.host.tell_kept()
    kept = scene.wait(h.RunKept)
    assert kept.workers.keys() == {scene.worker}
    scene.send(m.Abort(generation=3))
    assert scene.heard_by(0, 1) == scene.heard_by(1, 1) == [m.Abort(generation=3)]


def test_a_host_without_a_port_starts_none_of_the_processes(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.begin()

    def refuse(address: str) -> None:
        raise OSError("too many open files")

    monkeypatch.setattr("swell.executors.local.agent.host.hold_port", refuse)
    scene.start(scene.worker + 1)
    exited = scene.wait(h.WorkerExited)
    assert (exited.worker, exited.status) == (scene.worker + 1, NOT_STARTED)
    assert "too many open files" in exited.log_tail
