"""A job that has something wrong with it, as a test says while it runs (`scripts/faulty.py`)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.eventually import eventually
from tests.platform.program import SCRIPTS, Entry, Program, read_diary

from swell.api.client import connect
from swell.model.view import Story

FAULTY = SCRIPTS / "faulty.py"
STEPS = 100_000


class Faulty:
    """A job of 1 to `size` workers that has them all."""

    def __init__(self, swell: Program, folder: Path, size: int) -> None:
        self.swell, self.folder, self.size = swell, folder, size
        self.id = swell.submit(folder, "--steps", STEPS, "--workers", f"1:{size}", script=FAULTY)
        self.await_size(size)

    # ------------------------------------------------------------ looking
    @property
    def pids(self) -> tuple[int, ...]:
        """In rank order."""
        return self.swell.job(self.id).live_pids

    def stories(self) -> list[Story]:
        with connect(self.swell.state) as client:
            return client.stories(self.id)

    def codes(self) -> list[str]:
        return [story.code for story in self.stories()]

    # ------------------------------------------------------------ waiting
    def await_size(self, size: int, begin: int | None = None) -> Entry:
        """The first step, from now or `begin` on, of a gang of this size."""
        begin = len(read_diary(self.folder)) if begin is None else begin
        found = eventually(
            lambda: next((e for e in read_diary(self.folder)[begin:] if e.num_workers == size), None),
            f"a step with {size} workers",
        )
        if size == self.size:
            self.swell.await_job(self.id, lambda job: len(job.live_pids) == size, f"{size} workers")
        self.swell.await_steps(self.folder, 3)
        return found

    def await_code(self, code: str, num: int = 1) -> None:
        eventually(lambda: self.codes().count(code) >= num, f"{num} times {code!r}")

    def await_checkpoint(self) -> int:
        """The steps in the newest one."""
        checkpoints = self.swell.state / "jobs" / self.id / "checkpoints"
        path = eventually(lambda: max(checkpoints.glob("step-*"), default=None), "a checkpoint")
        return int(path.name.removeprefix("step-").partition(".")[0])

    # ------------------------------------------------------------ doing
    def write(self, name: str, text: object) -> None:
        """Whole at once: others look at any time."""
        draft = self.folder / f".{name}"
        draft.write_text(str(text))
        draft.rename(self.folder / name)

    def stop(self, *pids: int) -> None:
        """SIGSTOP; returns with the next step of somebody else: a process group's timeout is longer."""
        begin = len(read_diary(self.folder))
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        last = read_diary(self.folder)[-1]
        eventually(
            lambda: any(
                e.num_workers != last.num_workers or e.pid != last.pid
                for e in read_diary(self.folder)[begin:]
            ),
            "a step without the one that was stopped",
        )
