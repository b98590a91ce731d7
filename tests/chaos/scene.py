"""A platform to which things happen."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil
from tests.chaos.jobs import Jobs
from tests.eventually import PATIENCE_S, eventually
from tests.platform.program import Program
from tests.platform.wall import WallClock

from swell.api.client import connect
from swell.api.errors import NoPlatform
from swell.executors.local.processes.listing import is_alive
from swell.model.view import JobView

DEVICES = "paced:4@1280"
ZYGOTE = "swell.executors.local.zygote.process"
#: A fault may need the platform to have done something about the one before.
SETTINGS = (
    "standstill_s=1",
    "stuck_s=5",
    "boundary_s=2",
    "yield_s=3",
    "checkpoint_interval_s=1",
    "min_hold_s=0.5",
    "trial_s=30",
)
DISK_BYTES = 192 << 20


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """To workers: some may have ended meanwhile, through the fault before."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def end(pids: Sequence[int]) -> None:
    """Returns when they have."""
    send(pids, signal.SIGKILL)
    eventually(lambda: not any(map(is_alive, pids)), f"the end of {pids}", PATIENCE_S)


@dataclass
class Scene:
    swell: Program
    wall: WallClock
    chance: Random
    jobs: Jobs
    folder: Path  #: beside the state folder, and never full
    has_own_disk: bool  #: the state folder is a small file system of its own
    told: list[str] = field(default_factory=list)  #: what was done, for the reader of a failure

    # ------------------------------------------------------------ looking
    @property
    def state(self) -> Path:
        return self.swell.state

    def views(self) -> list[JobView]:
        with connect(self.state) as client:
            return client.jobs()

    def running(self) -> list[JobView]:
        """Jobs whose workers train."""
        return [view for view in self.views() if view.phase == "running" and view.live_pids]

    def await_running(self) -> list[JobView]:
        return eventually(self.running, "a job that trains", PATIENCE_S)

    def victims(self) -> list[int]:
        """A process of each worker of one job that trains."""
        view = self.chance.choice(self.await_running())
        return [self.chance.choice(self.jobs.processes_of(view.id, pid)) for pid in view.live_pids]

    def agent(self) -> psutil.Process:
        return eventually(self._agent, "an agent", PATIENCE_S)

    def _agent(self) -> psutil.Process | None:
        try:
            return psutil.Process(self.swell.agent_pid)
        except (psutil.NoSuchProcess, AssertionError):
            return None

    def zygote(self) -> int:
        def look() -> int | None:
            try:
                children = self.agent().children()
                zygotes = [one.pid for one in children if ZYGOTE in one.cmdline()]
            except psutil.Error:
                return None
            return zygotes[0] if zygotes else None

        return eventually(look, "a zygote", PATIENCE_S)

    # ------------------------------------------------------------ doing
    def up(self) -> None:
        self.swell.ok("up", "--devices", DEVICES, *(word for text in SETTINGS for word in ("--set", text)))

    def ensure_up(self) -> None:
        if self.swell.daemon_pid is None:
            self.up()
        eventually(self._answers, "an answer of the platform", PATIENCE_S)

    def _answers(self) -> bool:
        try:
            with connect(self.state) as client:
                return client.cluster().num_devices > 0
        except NoPlatform:
            return False

    def kill_daemon(self) -> None:
        daemon = self.swell.daemon_pid
        assert daemon is not None
        end([daemon])

    @contextmanager
    def stopped(self, pid: int) -> Iterator[None]:
        """The process stands still meanwhile."""
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            if is_alive(pid):
                os.kill(pid, signal.SIGCONT)

    def checkpoints(self, job: str) -> list[Path]:
        """Oldest first."""
        return sorted((self.state / "jobs" / job / "checkpoints").glob("step-*.pt"))


@contextmanager
def own_disk(state: Path) -> Iterator[bool]:
    """A small file system for the state folder, where this user may mount one. Tells whether it could."""
    state.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=0700", "tmpfs", str(state)]
    is_mounted = os.geteuid() == 0 and subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(state)], check=True)
