"""Values that no journal has, and environments of requirements: as jobs of the whole program find them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.eventually import eventually
from tests.platform.program import PLANE, Program, job_id, kill
from tests.wheels import uv_environ, write_wheel

from swell.executors.local.environments import uv_words

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not uv_words(), reason="uv is not installed; `pip install uv`"),
]
SECRET = "hunter2-0123456789"
#: Before a script that trains: it notes what it finds.
NOTES = """
import os, laba, sys
with open(os.path.join(os.environ["SWELL_WORKDIR"], "found"), "a") as found:
    found.write(f"{os.environ['KEY']} {laba.VERSION} {sys.prefix} {os.getpid()}\\n")
"""


@pytest.fixture(scope="module")
def swell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    wheels = tmp_path_factory.mktemp("wheels")
    write_wheel(wheels, "laba", "1.0")
    beside = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    program = Program(
        tmp_path_factory.mktemp("environments") / "state", uv_environ(wheels) | {"PATH": beside}
    )
    program.up()
    yield program
    program("down")
    assert program.processes() == set()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.py").write_text(NOTES + PLANE.read_text())
    (folder / "requirements.txt").write_text("laba  # of the lab\n")
    (folder / "secrets.env").write_text(f"KEY={SECRET}\n")
    (folder / "secrets.env").chmod(0o600)
    return folder


def found(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "found").read_text().splitlines()]


def files_with(state: Path, text: str) -> set[str]:
    """Names of files of the state folder that hold it."""
    files = (path for path in state.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.name for path in files if text.encode() in path.read_bytes()}


def test_workers_find_both_after_a_kill_and_again_and_nobody_else_does(swell: Program, work: Path) -> None:
    options = ("--env-from", work / "secrets.env", "--uv", work / "requirements.txt")
    often = ("--epochs", 4000, "--checkpoint-interval", "1s")
    job = swell.submit(work, *options, *often, "--workers", "1:2", script=work / "train.py")
    swell.await_training(job, 2, work)
    for pid in (swell.daemon_pid, swell.agent_pid):
        assert pid is not None
        kill(pid)
    swell.up()
    swell.await_training(job, 2, work)
    texts = [
        " ".join([*one.cmdline(), *one.environ().values()]) for one in map(psutil.Process, swell.processes())
    ]
    assert not any(SECRET in text for text in texts)
    shown = [
        swell.ok(*words) for words in (("show", job), ("show", job, "--json"), ("explain", job), ("jobs",))
    ]
    assert not any(SECRET in text for text in shown) and "KEY" in shown[0]
    swell.ok("cancel", job)
    swell.await_end(job, "cancelled")
    again = job_id(swell.ok("retry", job))
    swell.await_training(again, 2, work)
    (work / "secrets.env").unlink()
    eventually(lambda: list((swell.state / "jobs" / again / "checkpoints").glob("*")), "a checkpoint")
    swell.ok("cancel", again)
    swell.await_end(again, "cancelled")
    went_on = job_id(swell.ok("continue", again))
    swell.await_training(went_on, 2, work)
    swell.ok("cancel", went_on)
    swell.await_end(went_on, "cancelled")
    pids = {pid for *_, pid in found(work)}
    prefixes = {prefix for *_, prefix, _ in found(work)}
    assert len(pids) >= 8 and len(prefixes) == 1 and str(swell.state / "envs") in min(prefixes)
    assert {(key, version) for key, version, *_ in found(work)} == {(SECRET, "1.0")}
    assert files_with(swell.state, SECRET) == {"inputs.json"}
    swell.ok("admin", "prune", job, again, went_on)
    assert files_with(swell.state, SECRET) == set()


def test_a_command_finds_its_programs_first(swell: Program, work: Path) -> None:
    code = "import laba, sys, os; print(laba.VERSION, sys.prefix != sys.base_prefix, os.environ['KEY'])"
    options = ("--time", "1m", "--env-from", work / "secrets.env", "--uv", work / "requirements.txt")
    job = job_id(swell.ok("submit", "--workdir", work, *options, "--", "python", "-c", code))
    swell.await_end(job)
    assert swell.ok("logs", job).split() == ["1.0", "True", SECRET]


def test_requirements_that_cannot_be_met_fail_the_job_in_words_of_uv(swell: Program, work: Path) -> None:
    (work / "other.txt").write_text("laba==9\n")
    submitted = swell("submit", "--script", work / "train.py", "--steps", 5, "--uv", work / "other.txt")
    assert submitted.returncode == 1
    assert "unsatisfiable" in submitted.stdout
    assert "laba==9" in " ".join(swell.ok("show", submitted.stdout.partition(":")[0]).split())
