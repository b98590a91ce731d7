"""How scripts end, and who hears of it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.eventually import PATIENCE_S
from tests.train.fake_agent import FakeAgent, fork_script, until

from swell.model.failure import failure_sentence
from swell.train.runtime.runner import MAX_MESSAGE_CHARS
from swell.wire import environ, messages

SCRIPTS = Path(__file__).parent / "scripts"
ENDS, CURVE = SCRIPTS / "ends.py", SCRIPTS / "curve.py"


@pytest.fixture
def agent(start_agent: Callable[..., FakeAgent]) -> FakeAgent:
    return start_agent(heartbeat_s=0.02)


def test_a_traceback_begins_with_the_users_lines(agent: FakeAgent) -> None:
    agent.start(0, ENDS, "raise")
    message = agent.wait(0, messages.Failed).message
    assert agent.exit_status(0) == 1
    assert "fail_deep_inside()" in message
    assert "no such column" in message
    assert "runner.py" not in message
    assert "runpy" not in message
    assert message in agent.log(0).read_text()


def test_an_error_with_a_long_text_keeps_its_beginning_and_its_place(agent: FakeAgent) -> None:
    agent.start(0, ENDS, "raise-long")
    message = agent.wait(0, messages.Failed).message
    assert len(message) <= MAX_MESSAGE_CHARS
    assert failure_sentence(message).startswith("KeyError: 'first of all")
    assert "ends.py" in message and "last of all" in message


@pytest.mark.parametrize("ending", ["no-batches", "frozen"])
def test_an_error_of_swells_own_ends_in_the_users_lines(agent: FakeAgent, ending: str) -> None:
    agent.start(0, ENDS, ending)
    message = agent.wait(0, messages.Failed).message
    frames = [line for line in message.splitlines() if line.startswith('  File "')]
    assert frames and all("ends.py" in line for line in frames), message
    assert "(ends.py:" in failure_sentence(message)


def test_a_module_runs_as_python_runs_it_with_its_package(agent: FakeAgent, tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "net.py").write_text("WORD = 'of the package'")
    (package / "main.py").write_text("from .net import WORD\nprint(__name__, WORD)\nraise SystemExit(7)\n")
    agent.environ = {environ.WORKDIR: str(tmp_path)}
    agent.start(0, "pack.main")
    assert agent.exit_status(0) == 7
    assert "__main__ of the package" in agent.log(0).read_text()


def test_a_module_that_is_not_installed_is_told_where_it_belongs(agent: FakeAgent, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import there_is_no_such_module\n")
    agent.start(0, script)
    told = failure_sentence(agent.wait(0, messages.Failed).message)
    assert told.startswith(
        "ModuleNotFoundError: No module named 'there_is_no_such_module' (train.py:1); jobs have"
    )
    assert "the environment of `swell up`" in told and sys.executable in told


def test_a_file_that_a_trial_run_misses_is_named_as_it_was_submitted(
    agent: FakeAgent, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    folder = tmp_path / "scratch" / "9"
    script.write_text(f"open({str(folder)!r} + '/home/ana/x.csv')\n")
    agent.environ = {environ.MIRROR: str(folder)}
    agent.start(0, script)
    assert "'/home/ana/x.csv' (train.py:1)" in failure_sentence(agent.wait(0, messages.Failed).message)


def test_a_script_that_fails_is_not_stopped_before_it_has_said_why(agent: FakeAgent) -> None:
    agent.start(0, ENDS, "raise-interrupted")  # the agent stops the others when one has failed
    assert agent.exit_status(0) == 1
    assert "no such column" in agent.wait(0, messages.Failed).message
    assert "no such column" in agent.log(0).read_text()
    assert "SystemExit" not in agent.log(0).read_text()


@pytest.mark.parametrize(("ending", "status"), [("status", 3), ("text", 1)])
def test_the_scripts_own_exit_status_is_kept(agent: FakeAgent, ending: str, status: int) -> None:
    agent.start(0, ENDS, ending)
    message = agent.wait(0, messages.Failed).message
    assert f"ended with exit status {status} before it called swell.train.elastic" in message
    assert ("cannot read the data" in message) == (ending == "text")
    assert agent.exit_status(0) == status
    assert ("cannot read the data" in agent.log(0).read_text()) == (ending == "text")


def test_a_script_that_is_not_elastic_is_told_what_to_do(agent: FakeAgent, tmp_path: Path) -> None:
    agent.start(0, ENDS, "quietly")
    message = agent.wait(0, messages.Failed).message
    assert "swell.train.elastic" in message
    assert "elasticity: restart" in message
    assert 'File "' not in message  # nothing of it is in a frame of Swell
    assert agent.exit_status(0) == 1
    unmanaged = fork_script(ENDS, ("quietly",), tmp_path / "log", {})  # as in a restart job
    unmanaged.join(PATIENCE_S)
    assert unmanaged.exitcode == 0
    assert (tmp_path / "log").read_text() == "done\n"


@pytest.mark.parametrize("ending", ["threads", "threads-exit"])
def test_threads_of_a_script_finish_before_the_process_ends(tmp_path: Path, ending: str) -> None:
    process = fork_script(ENDS, (ending,), tmp_path / "log", {})
    process.join(PATIENCE_S)
    assert process.exitcode == 0
    lines = (tmp_path / "log").read_text().splitlines()
    assert sorted(lines[:-1]) == ["task 0 is done", "task 1 is done", "task 2 is done", "thread is done"]
    assert lines[-1] == "at exit"


def test_a_thread_that_never_ends_does_not_outlast_a_stop(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = fork_script(ENDS, ("stuck-thread",), log, {})
    until(lambda: log.exists() and "waits" in log.read_text())
    process.terminate()
    process.join(PATIENCE_S)
    assert process.exitcode == 143


def test_missing_things_are_failures_of_the_script(agent: FakeAgent) -> None:
    agent.start(0, ENDS.with_name("absent.py"))
    assert "absent.py" in agent.wait(0, messages.Failed).message
    agent.start(1, "no_such_package.train:main")
    assert "no_such_package" in agent.wait(1, messages.Failed).message


def test_a_group_of_the_scripts_own_is_refused(agent: FakeAgent) -> None:
    agent.start(0, ENDS, "group")
    assert "remove the call" in agent.wait(0, messages.Failed).message


def test_sigterm_means_leave(agent: FakeAgent) -> None:
    process = agent.start(0, ENDS, "sleep")
    until(lambda: agent.log(0).exists() and "asleep" in agent.log(0).read_text())
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)
    assert agent.exit_status(0) == 143
    assert not agent.all_said(messages.Failed)


def test_a_worker_says_alive_while_its_script_is_busy(agent: FakeAgent) -> None:
    agent.start(0, ENDS, "sleep")
    until(lambda: len(agent.all_said(messages.Alive)) >= 3)


def test_a_worker_ends_with_its_agent_and_its_log_is_written(agent: FakeAgent) -> None:
    agent.start(0, ENDS, "write")
    until(lambda: agent.log(0).exists() and "has written" in agent.log(0).read_text())
    agent.hang_up()
    assert agent.exit_status(0) == 143
    assert "a line of the log" in agent.log(0).read_text()


def test_a_wrong_token_is_refused(agent: FakeAgent) -> None:
    agent.start(0, ENDS, "quietly", token="guess")
    assert agent.exit_status(0) == 1
    assert "gave no welcome" in agent.log(0).read_text()
    assert not agent.said


def test_no_agent_is_an_error_that_says_so(tmp_path: Path) -> None:
    names = {"SWELL_AGENT": "127.0.0.1:1", "SWELL_TOKEN": "t", "SWELL_WORKER": "0"}
    process = fork_script(ENDS, ("quietly",), tmp_path / "log", names)
    process.join(PATIENCE_S)
    assert process.exitcode == 1
    assert "no agent at 127.0.0.1:1" in (tmp_path / "log").read_text()


def test_leaving_the_loop_early_finishes_the_job(agent: FakeAgent, tmp_path: Path) -> None:
    agent.start_ready([0, 1], CURVE, str(tmp_path / "result.json"), "10", "leave")
    agent.join([0, 1], source=None)
    for worker in (0, 1):
        assert agent.wait(worker, messages.Finished).steps == 16
        assert agent.exit_status(worker) == 0
    assert (tmp_path / "result.json").exists()
