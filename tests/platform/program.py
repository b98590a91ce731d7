"""Swell as its user has it: a program, a state folder, and processes that can be looked at and killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from tests.eventually import PATIENCE_S, eventually
from tests.started_program import run_program

from swell.api.client import connect
from swell.executors.local.agent.address import read_address
from swell.executors.local.processes.listing import is_alive
from swell.model.view import JobView
from swell.store.folder import StateFolder

SCRIPTS = Path(__file__).parent / "scripts"
PLANE = SCRIPTS / "plane.py"

#: 64 samples take a worker alone 0.1 s, four workers 25 ms.
DEVICES = "paced:4@640"
STEPS_PER_EPOCH = 8
#: Epochs of a job that ends when its test says so, with `Program.finish`: six hours on four devices.
ENDLESS = 100_000

Done = subprocess.CompletedProcess[str]
#: Compares what a job has learned in a folder with a run that was not disturbed; returns its number of steps.
CheckLearned = Callable[[Path], int]


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a script's diary."""

    step: int
    pid: int  #: of the leader
    num_workers: int


def read_diary(folder: Path) -> list[Entry]:
    """The steps that a script noted in this folder so far."""
    path = folder / "diary"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [Entry(*map(int, line.split())) for line in lines if line.endswith("\n")]


def read_weights(folder: Path) -> dict[str, Any]:
    weights: dict[str, Any] = json.loads((folder / "weights.json").read_text())
    return weights


class Program:
    """The program on one state folder."""

    def __init__(self, state: Path, environ: Mapping[str, str] | None = None) -> None:
        self.state = state
        plain = {name: value for name, value in os.environ.items() if not name.startswith("SWELL_")}
        self.environ = plain | {"SWELL_STATE": str(state)} | dict(environ or {})

    # ------------------------------------------------------------ commands
    def __call__(self, *words: object, within_s: float = 2 * PATIENCE_S) -> Done:
        """In a process of its own."""
        return run_program(*words, environ=self.environ, timeout_s=within_s)

    def begin(self, *words: object) -> subprocess.Popen[str]:
        """In a process of its own, whose output can be read while it runs."""
        command = [sys.executable, "-P", "-m", "swell.cli.main", *map(str, words)]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, text=True, env=self.environ, **pipes)  # type: ignore[call-overload,no-any-return]

    def ok(self, *words: object) -> str:
        """What a command prints that must succeed."""
        done = self(*words)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def json(self, *words: object) -> Any:
        return json.loads(self.ok(*words, "--json"))

    def up(self) -> None:
        self.ok("up", "--devices", DEVICES)

    def up_with(self, policy: str, *settings: str) -> None:
        """Under a policy, with these settings alone. A daemon that runs is killed; its agent goes on."""
        if daemon := self.daemon_pid:
            kill(daemon)
        words = (word for setting in ("", *settings) for word in ("--set", setting))
        self.ok("up", "--devices", DEVICES, "--policy", policy, *words)

    def submit(self, folder: Path, *options: object, script: Path = PLANE) -> str:
        """A job of 64 samples a step that runs in `folder`; returns its id."""
        return job_id(self.ok(*submission(folder, *options, script=script)))

    def promise(
        self,
        folder: Path,
        *options: object,
        within_s: float = 0.0,
        deadline: str = "",
        script: Path = PLANE,
        args: Sequence[object] = (),
    ) -> str:
        """A strict job, with the deadline offered instead where the machine is too busy; returns its id."""
        deadline = deadline or f"now+{within_s:g}s"
        words = submission(folder, *options, "--or-nothing", script=script)
        while (
            done := self(*words, "--deadline", deadline, *(("--", *args) if args else ()))
        ).returncode == 3:
            (deadline,) = re.findall(r"^  submit again with --deadline (\S+)$", done.stdout, re.MULTILINE)
        assert done.returncode == 0, done
        assert "promised to finish by" in done.stdout
        return job_id(done.stdout)

    # ------------------------------------------------------------ looking
    def job(self, name: str) -> JobView:
        """As `show --json` has it, without the quarter of a second that a program takes to start."""
        with connect(self.state) as client:
            return client.job(name)

    def await_job(self, name: str, until: Callable[[JobView], bool], what: str) -> JobView:
        """The job as soon as `until` is true of it."""
        with connect(self.state) as client:

            def look() -> JobView | None:
                view = client.job(name)
                return view if until(view) else None

            try:
                return eventually(look, what)
            except AssertionError as error:
                told = "\n".join(
                    f"{story.at_s:.2f} {story.code}: {story.text}" for story in client.stories(name)
                )
                raise AssertionError(f"{error}\n{client.job(name)}\n{told}") from None

    def await_end(self, name: str, phase: str = "succeeded") -> JobView:
        view = self.await_job(name, lambda job: job.phase.is_end, f"end of {name}")
        assert view.phase == phase, view
        return view

    def finish(self, name: str, folder: Path) -> JobView:
        """Tell a job of `ENDLESS` epochs to end with an epoch that has not begun yet; the job at its end."""
        (folder / "enough").touch()
        return self.await_end(name)

    def await_training(self, name: str, num_workers: int, folder: Path, num_steps: int = 5) -> JobView:
        """The job, once it trains with so many workers and has made some steps so."""
        view = self.await_job(
            name, lambda job: job.workers == num_workers, f"{name} with {num_workers} workers"
        )
        self.await_steps(folder, num_steps)
        return view

    def await_steps(self, folder: Path, num_steps: int) -> list[Entry]:
        """What the diary says, once it has so many more entries than now."""
        before = len(read_diary(folder))

        def look() -> list[Entry] | None:
            entries = read_diary(folder)
            return entries if len(entries) >= before + num_steps else None

        return eventually(look, f"{num_steps} steps in {folder}")

    def await_log(self, name: str, text: str) -> None:
        with connect(self.state) as client:
            eventually(
                lambda: any(text in chunk.text for chunk in client.logs(name)), f"{text!r} from {name}"
            )

    # ------------------------------------------------------------ processes
    @property
    def daemon_pid(self) -> int | None:
        """Of a daemon that runs."""
        endpoint = StateFolder(self.state).read_endpoint()
        return endpoint.pid if endpoint is not None and is_alive(endpoint.pid) else None

    @property
    def agent_pid(self) -> int:
        address = read_address(self.state)
        assert address is not None
        return address.pid

    @property
    def zygote_pid(self) -> int:
        (zygote,) = psutil.Process(self.agent_pid).children()
        return zygote.pid

    def processes(self) -> set[int]:
        """Everything that runs and knows this state folder."""
        return {process.pid for process in psutil.process_iter() if self._is_ours(process)}

    def await_processes(self, num: int) -> None:
        eventually(lambda: len(self.processes()) == num, f"{num} processes")

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            texts = [*process.cmdline(), *process.environ().values()]
            return process.status() != psutil.STATUS_ZOMBIE and any(str(self.state) in text for text in texts)
        except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
            return False


def submission(folder: Path, *options: object, script: Path = PLANE) -> list[object]:
    """The words of a `swell submit`; the script is told apart from others by its folder, not by arguments."""
    return ["submit", "--script", script, "--workdir", folder, "--global-batch", 64, *options]


def job_id(printed: str) -> str:
    """Of what `submit` printed."""
    match = re.match(r"(\S+): ", printed)
    assert match is not None, printed
    return match[1]


def kill(pid: int) -> None:
    """As the kernel does when memory is short; returns when the process has ended."""
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid), f"end of {pid}")
