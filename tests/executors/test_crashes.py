"""Whatever process is killed, whenever: nothing is lost that need not be, and no process is left."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import psutil
import pytest
from tests.eventually import PATIENCE_S, eventually
from tests.executors.contract import JOB, launch, resize
from tests.executors.listening import Listener
from tests.executors.puppets import devices

from swell.executors.controller import protocol
from swell.executors.controller.protocol import Attach
from swell.executors.local import link
from swell.executors.local.agent.address import AgentAddress, address_path, read_address
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import parse_devices
from swell.executors.local.launch import AgentError, find_agent, stop_agent
from swell.executors.local.link import LocalExecutor
from swell.executors.local.processes.listing import is_alive
from swell.executors.local.processes.strays import end_strays
from swell.model.command import ProfileJob, StopGang
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


def test_an_agent_that_cannot_be_adopted_is_asked_again_less_and_less_often(
    executor: LocalExecutor,
    listener: Listener,
    make_job: Callable[..., JobSpec],
    state_dir: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    address = read_address(state_dir)
    assert address is not None and executor._socket is not None
    looks: list[float] = []

    def look(state_dir: Path) -> AgentAddress | None:
        looks.append(time.monotonic())
        other = msgspec.structs.replace(address, fixed=("--other",))
        return other if len(looks) < 5 else address

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link, "find_agent", look)
        executor._socket.shutdown(socket.SHUT_RDWR)
        executor.perform(launch(make_job, devices(0)))
        listener.wait(GangStarted)
    pauses_s = [later - sooner for sooner, later in pairwise(looks)]
    assert all(pause_s >= 0.05 * 2**number for number, pause_s in enumerate(pauses_s)), pauses_s
    lost = [record for record in caplog.records if "started with other options" in record.getMessage()]
    assert len(lost) == 1


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
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
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


# ---------------------------------------------------------------- strays
def daemons_of(folder: Path, pids: tuple[int, ...]) -> list[int]:
    return [int((folder / f"daemon-{pid}").read_text()) for pid in pids]


@pytest.fixture
def started(
    executor: LocalExecutor, listener: Listener, make_job: Callable[..., JobSpec], tmp_path: Path
) -> list[int]:
    """Pids of the daemons of a gang of two."""
    executor.perform(launch(make_job, devices(0, 1), daemon=1))
    return daemons_of(tmp_path, listener.wait(GangStarted).pids)


@pytest.fixture
def orphaned(executor: LocalExecutor, started: list[int], state_dir: Path) -> list[int]:
    """The daemons after a kill of everything else."""
    address = read_address(state_dir)
    assert address is not None
    executor.close()
    for zygote in psutil.Process(address.pid).children():
        zygote.suspend()  # else it may end them, in the moment that it outlives the agent
    os.kill(address.pid, signal.SIGKILL)
    eventually(lambda: not is_alive(address.pid))
    assert all(map(is_alive, started))
    return started


def test_the_next_agent_ends_what_the_one_before_left(
    new_executor: Callable[[], LocalExecutor], orphaned: list[int], state_dir: Path
) -> None:
    new_executor().start(Listener().put)
    assert not any(map(is_alive, orphaned))
    assert (
        "ended 2 processes that jobs of an earlier agent had left behind"
        in (state_dir / "agent.log").read_text()
    )


def test_an_end_without_a_daemon_ends_what_an_agent_left(orphaned: list[int], state_dir: Path) -> None:
    assert not stop_agent(state_dir)
    assert not any(map(is_alive, orphaned))


@pytest.mark.slow
def test_nothing_of_a_live_agent_or_of_another_folder_is_a_stray(
    started: list[int], state_dir: Path, tmp_path: Path
) -> None:
    assert end_strays(state_dir) == 0
    assert end_strays(tmp_path) == 0
    assert all(map(is_alive, started))


def ended_in_generation_7(
    new_executor: Callable[[], LocalExecutor], make_job: Callable[..., JobSpec]
) -> LocalExecutor:
    """An executor that has heard the end of its only gang."""
    executor, listener = new_executor(), Listener()
    executor.start(listener.put)
    executor.perform(launch(make_job, devices(0), generation=7))
    listener.wait(GangStarted, 7)
    executor.perform(StopGang(job_id="digits-1", generation=7))
    listener.wait(GangEnded, 7)
    return executor


def test_a_daemon_with_an_older_journal_may_begin_again_with_lower_generations(
    new_executor: Callable[[], LocalExecutor], make_job: Callable[..., JobSpec]
) -> None:
    first = ended_in_generation_7(new_executor, make_job)
    for _ in range(2):  # what was delivered before the call before is in the journal
        first.acknowledge()
    first.close()
    second, after = new_executor(), Listener()
    assert second.start(after.put).jobs == frozenset()
    second.perform(launch(make_job, devices(0), generation=2))
    assert after.wait(GangStarted, 2).pids
    live = new_executor().start(Listener().put).gangs
    assert [(gang.job_id, gang.generation, gang.devices) for gang in live] == [("digits-1", 2, devices(0))]


def test_an_end_that_no_journal_has_is_told_to_the_next_daemon_with_its_generation(
    new_executor: Callable[[], LocalExecutor], make_job: Callable[..., JobSpec]
) -> None:
    ended_in_generation_7(new_executor, make_job).close()
    assert new_executor().start(Listener().put).ended == {"digits-1": 7}


def test_what_runs_on_one_kind_of_device_is_not_adopted_by_a_daemon_that_has_another(
    new_executor: Callable[[], LocalExecutor], make_job: Callable[..., JobSpec], state_dir: Path
) -> None:
    first, before = new_executor(), Listener()
    first.start(before.put)
    first.perform(launch(make_job, devices(0, 1)))
    pids = before.wait(GangStarted).pids
    first.close()
    options = AgentOptions(state_dir=state_dir, preload=("msgspec",))
    other = LocalExecutor(options, parse_devices("cpu:8"))
    with pytest.raises(AgentError, match="with the devices and the --engine of before"):
        other.start(Listener().put)
    other.close()
    assert all(map(is_alive, pids))
    assert new_executor().start(Listener().put).jobs == {"digits-1"}


def test_an_agent_of_another_version_is_not_misunderstood(
    executor: LocalExecutor, new_executor: Callable[[], LocalExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    executor.start(lambda event: None)
    executor.close()
    spoken = protocol.PROTOCOL
    monkeypatch.setattr(protocol, "PROTOCOL", spoken + 1)
    remedy = rf"it speaks protocol {spoken}, this one {spoken + 1}; `swell down --force` ends it"
    with pytest.raises(AgentError, match=remedy):
        new_executor().start(lambda event: None)
