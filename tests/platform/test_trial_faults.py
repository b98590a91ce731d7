"""Trial runs whose processes are killed or stopped: every job succeeds, and nothing of a trial is left."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.platform.program import DEVICES, SCRIPTS, Program, job_id, kill, submission

from swell.api.client import connect
from swell.executors.local.processes.listing import is_alive

TRIALLED = SCRIPTS / "trialled.py"
MEMORY = Path("/dev/shm")  # noqa: S108 - that of a trial run, too
HANGS = "\nimport swell.train\nwhile True:\n    pass\nswell.train.elastic()\n"
SETTINGS = ("standstill_s=1", "min_hold_s=0.5")


@pytest.fixture(scope="module")
def temporary() -> Path:
    """The machine's temporary directory, as far as the platform knows."""
    return Path(tempfile.mkdtemp(prefix="trials-"))  # a short name: sockets are made in it


@pytest.fixture(scope="module")
def swell(tmp_path_factory: pytest.TempPathFactory, temporary: Path) -> Iterator[Program]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        program = Program(tmp_path_factory.mktemp("trials") / "state")
    words = (word for setting in SETTINGS for word in ("--set", setting))
    program.ok("up", "--devices", DEVICES, *words)
    yield program
    program("down")
    assert program.processes() == set()
    left = [path.name for path in temporary.iterdir() if not path.name.startswith("torchinductor")]
    shutil.rmtree(temporary)
    for path in MEMORY.glob("trialled-*"):
        path.unlink()
    assert left == [], "of loaders' processes and trial runs"


def notes_of(folder: Path) -> str:
    """How the names begin of files that a trial run shares with its test: see `trialled.py`."""
    return f"{MEMORY}/trialled{str(folder).replace('/', '-')}-"


class Trialled:
    """A job of trialled.py, submitted."""

    def __init__(self, swell: Program, folder: Path, **files: str) -> None:
        self.swell, self.workdir = swell, folder / "work"
        self.notes = notes_of(folder)
        self.workdir.mkdir()
        for name, text in files.items():
            self.named(name.replace("_", "-")).write_text(text)
        options = ("--steps", 6, "--workers", "1:2", "--no-wait")
        words = submission(self.workdir, *options, script=TRIALLED)
        self.id = job_id(swell.ok(*words, "--", self.notes))

    def named(self, name: str) -> Path:
        return Path(self.notes + name)

    def events(self) -> list[tuple[str, int, bool]]:
        path = self.named("events")
        lines = path.read_text().splitlines() if path.exists() else []
        return [(place, int(pid), trial == "1") for place, pid, trial in map(str.split, lines)]

    def await_place(self, place: str, besides: frozenset[int] = frozenset()) -> int:
        """The process of a trial run that has got there; not one of those."""

        def look() -> int | None:
            there = (pid for at, pid, is_trial in self.events() if at == place and is_trial)
            return next((pid for pid in there if pid not in besides), None)

        return eventually(look, f"a process at {place!r}")

    def codes(self) -> list[str]:
        with connect(self.swell.state) as client:
            return [story.code for story in client.stories(self.id)]

    def release(self, place: str) -> None:
        self.named(f"hold-{place}").unlink()


def strike(swell: Program, victim: str, pid: int) -> None:
    """Kill or stop something while a trial run is where `pid` is."""
    if victim in ("stop", "terminate"):
        os.kill(pid, signal.SIGSTOP if victim == "stop" else signal.SIGTERM)
    else:
        kill({"worker": pid, "zygote": swell.zygote_pid, "agent": swell.agent_pid}[victim])
    eventually(lambda: not is_alive(pid), f"the end of {pid}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "place"),
    [
        ("worker", "start"),
        ("stop", "built"),
        pytest.param("agent", "step", marks=pytest.mark.soak),
        pytest.param("zygote", "step", marks=pytest.mark.soak),
        pytest.param("terminate", "step", marks=pytest.mark.soak),
    ],
)
def test_a_trial_run_that_is_lost_is_repeated(
    swell: Program, tmp_path: Path, victim: str, place: str
) -> None:
    job = Trialled(swell, tmp_path, **{f"hold_{place}": ""})
    pid = job.await_place("start")  # a process that it forks, to see whether it can go on, makes steps before
    eventually(lambda: (place, pid, True) in job.events(), f"the trial run at {place!r}")
    strike(swell, victim, pid)
    job.release(place)
    ended = swell.await_end(job.id)
    assert ended.message == ""
    assert ("trial_lost" in job.codes()) == (victim != "agent"), "a new agent is told again by itself"
    assert job.await_place("step", frozenset({pid})) not in ended.pids
    assert [path.name for path in job.workdir.iterdir()] == ["out"], "the trial had a folder of its own"
    scratch = swell.state / "scratch"
    eventually(lambda: not list(scratch.glob("*/*")), "nothing of it is left")


@pytest.mark.slow
def test_a_trial_run_that_waits_holds_no_other_up(swell: Program, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = Trialled(swell, tmp_path / "one", hold_built="")
    one.await_place("built")
    two = Trialled(swell, tmp_path / "two")
    two.await_place("step")
    assert one.codes()[-1] == "profiling"
    swell.await_end(two.id)
    one.release("built")
    swell.await_end(one.id)


@pytest.mark.slow
def test_a_strict_job_is_answered_though_nine_scripts_hang_before_it(swell: Program, tmp_path: Path) -> None:
    hanging: list[str] = []
    with connect(swell.state) as client:
        for number in range(9):
            script = tmp_path / f"hangs{number}.py"
            script.write_text(f"# {number}{HANGS}")
            hanging.append(client.submit(script=script, workdir=tmp_path, global_batch=64, epochs=1))
    swell.promise(tmp_path, "--epochs", 2, within_s=360.0)
    waiting = [swell.job(job) for job in hanging]
    assert any(job.reason.startswith("waits for the trial run") for job in waiting)
    swell.ok("cancel", *hanging)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exits", "phase", "told"),
    [
        ("sys 0", "succeeded", ""),
        ("sys 3", "failed", "ended with exit status 3"),
        ("os 3", "failed", "ended with status 3 in its training loop"),
    ],
)
def test_a_script_that_exits_in_its_loop_is_told_what_it_did(
    swell: Program, tmp_path: Path, exits: str, phase: str, told: str
) -> None:
    job = Trialled(swell, tmp_path, exits=exits)
    ended = swell.await_end(job.id, phase)
    assert told in ended.message
    assert "elastic" not in ended.message
