"""Whatever process is killed, whenever: nothing is lost that need not be, and no process is left."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest
from tests.eventually import eventually
from tests.executors.contract import JOB, launch, resize
from tests.executors.listening import Listener
from tests.executors.puppets import devices

from swell.executors.controller.protocol import Attach
from swell.executors.local.agent.address import address_path, read_address
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import parse_devices
from swell.executors.local.launch import find_agent, stop_agent
from swell.executors.local.link import LocalExecutor
from swell.executors.local.processes.listing import is_alive
from swell.model.command import ProfileJob
from swell.model.event import (
    GangEnded,
    GangResized,
    GangStarted,
    Outcome,
    ProfilingFailed,
    StepsReported,
)
from swell.model.job import JobSpec
from swell.wire.messages import Hello


def test_training_goes_on_without_a_daemon_and_the_next_one_adopts_it(
    new_executor: Callable[[], LocalExecutor], make_job: Callable[..., JobSpec]
) -> None:
    first, before = new_executor(), Listener()
    assert first.start(before.put).jobs == frozenset()
    first.perform(launch(make_job, devices(0, 1)))
    pids = before.wait(GangStarted).pids
    first.close()
    steps = max(event.steps for event in before.events if isinstance(event, GangStarted | StepsReported))
    second, after = new_executor(), Listener()
    assert second.start(after.put).jobs == {JOB}
    assert after.wait(GangStarted).pids == pids  # it was never acknowledged
    second.perform(resize(2, devices(0, 1, 2)))
    resized = after.wait(GangResized, 2)
    assert resized.pids[:2] == pids
    assert resized.steps > steps


def test_what_happens_while_no_daemon_is_there_is_told_to_the_next(
    new_executor: Callable[[], LocalExecutor], make_job: Callable[..., JobSpec], state_dir: Path
) -> None:
    first, before = new_executor(), Listener()
    first.start(before.put)
    first.perform(launch(make_job, devices(0), steps=80))
    (pid,) = before.wait(GangStarted).pids
    first.close()
    eventually(lambda: not is_alive(pid))
    second, after = new_executor(), Listener()
    eventually(lambda: (state_dir / "jobs" / JOB).exists())
    assert second.start(after.put).jobs == {JOB}
    ended = after.wait(GangEnded)
    assert (ended.outcome, ended.steps) == (Outcome.SUCCEEDED, 80)
    assert len([event for event in after.events if isinstance(event, StepsReported)]) <= 4


def test_a_broken_line_loses_and_repeats_nothing(
    executor: LocalExecutor, listener: Listener, make_job: Callable[..., JobSpec]
) -> None:
    executor.perform(launch(make_job, devices(0, 1)))
    listener.wait(GangStarted)
    for generation in range(2, 8):
        assert executor._socket is not None
        executor._socket.shutdown(socket.SHUT_RDWR)
        executor.perform(resize(generation, devices(0, 1, 2) if generation % 2 else devices(0, 1)))
        listener.wait(GangResized, generation)
    resized = [event.generation for event in listener.events if isinstance(event, GangResized)]
    assert resized == list(range(2, 8))


def test_without_the_right_token_the_line_is_closed_without_a_word(
    executor: LocalExecutor, listener: Listener, state_dir: Path
) -> None:
    address = read_address(state_dir)
    assert address is not None
    for greeting in (
        Attach(token="0" * 64, session="x"),
        Attach(token="é", session="x"),
        Hello(token=address.token, worker=0, pid=1),  # the daemon's token opens no job
        Hello(token="", worker=0, pid=1),
    ):
        assert say(address.port, msgspec.json.encode(greeting) + b"\n") == b""
    assert say(address.port, b"GET / HTTP/1.1\r\n\r\n") == b""


def test_a_job_has_a_token_that_no_other_job_takes(
    executor: LocalExecutor, listener: Listener, make_job: Callable[..., JobSpec], state_dir: Path
) -> None:
    executor.perform(launch(make_job, devices(0)))
    (pid,) = listener.wait(GangStarted).pids
    environment = psutil.Process(pid)
    address = read_address(state_dir)
    assert address is not None
    token = (state_dir.parent / f"token-{pid}").read_text()
    assert environment.is_running()
    for worker in (0, 1):  # here already; not of this job
        assert (
            say(address.port, msgspec.json.encode(Hello(token=token, worker=worker, pid=pid)) + b"\n") == b""
        )


def say(port: int, line: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(line)
        return connection.recv(4096)


def test_a_second_agent_is_refused_while_any_process_of_the_first_lives(
    executor: LocalExecutor, listener: Listener, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import sys; from pathlib import Path; from swell.executors.local.agent import address; "
        "address.hold_lock(Path(sys.argv[1]), wait_s=0.1)"
    )
    second = subprocess.run([sys.executable, "-c", code, str(state_dir)], capture_output=True, text=True)
    assert second.returncode != 0
    assert "in use by another agent" in second.stderr


def test_a_number_that_belongs_to_another_process_is_not_taken_for_an_agent(state_dir: Path) -> None:
    state_dir.mkdir()
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        address_path(state_dir).write_text(f'{{"port": 1, "pid": {other.pid}, "token": "t", "boot_id": "b"}}')
        assert find_agent(state_dir) is None
        assert not stop_agent(state_dir)
        time.sleep(0.05)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_preload_that_cannot_be_imported_is_the_platforms_error_and_loses_gangs(
    state_dir: Path, make_job: Callable[..., JobSpec]
) -> None:
    nodes = parse_devices("paced:8@400")
    options = AgentOptions(state_dir=state_dir, preload=("no_such_module",))
    executor, listener = LocalExecutor(options, nodes), Listener()
    executor.start(listener.put)
    try:
        executor.perform(launch(make_job, devices(0, 1)))
        ended = listener.wait(GangEnded)
        assert ended.outcome is Outcome.LOST, "it is tried again, when somebody has put that right perhaps"
        assert re.match(r"worker [01] could not be started, through no fault of the script", ended.message)
        assert "no_such_module" in ended.message
        trial = ProfileJob(job_id="trial", spec=make_job(), sizes=(1,), device_kind="paced@400")
        executor.perform(trial)
        assert "through no fault of the script" in listener.wait(ProfilingFailed).message
    finally:
        executor.shut_down()
