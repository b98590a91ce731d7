"""Some jobs, and a new one for each that ends while there are faults to come."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.platform.program import Program, job_id, submission

from swell.model.job import Phase
from swell.model.view import JobView

SCRIPT, COMMAND = Path(__file__).with_name("tally.py"), Path(__file__).with_name("command.py")
BATCH, NUM_SAMPLES = 64, 512
#: Deadlines far enough away that no fault can break one, near enough that plans are made for them.
DEADLINE = "now+6h"


@dataclass(slots=True)
class Job:
    id: str
    folder: Path
    epochs: int
    fails: bool = False  #: its script raises, by its own fault
    is_cancelled: bool = False
    is_fixed: bool = False  #: a command; one that does not end before its limit if it fails


class Jobs:
    """So many open at a time, each of as many epochs as chance says within a range."""

    def __init__(
        self, swell: Program, folder: Path, chance: Random, epochs: tuple[int, int], num_open: int
    ) -> None:
        self._swell, self._folder, self._chance, self._epochs = swell, folder, chance, epochs
        self._num_open = num_open
        self.every: dict[str, Job] = {}

    def refill(self, views: list[JobView]) -> None:
        """The platform is up."""
        num_open = sum(not view.phase.is_end for view in views)
        for _ in range(self._num_open - num_open):
            self.submit()

    def prepare(self, is_new: bool = False) -> tuple[Job, list[object]]:
        """A job that is yet to be submitted, and the words that do it.

        Args:
            is_new: nothing is known of it, so that it has a trial run of its own. Others may have one.
        """
        chance, number = self._chance, len(self.every)
        folder = self._folder / f"job-{number}"
        folder.mkdir()
        script = folder / "tally.py"
        shutil.copy(SCRIPT, script)
        job = Job("", folder, chance.randint(*self._epochs), fails=chance.random() < 0.1)
        if not is_new and chance.random() < 0.2:
            job.is_fixed = True
            terms = ("--devices", chance.choice((1, 2)), "--time", "4s" if job.fails else "1h")
            command = (sys.executable, COMMAND, "600" if job.fails else chance.uniform(1.0, 5.0))
            words = ["submit", "--no-wait", "--workdir", folder, "--grace", "1s", "--retries", 1000]
            return job, [*words, *terms, "--", *command]
        ways = {"raises": job.fails, "strays": chance.random() < 0.3, "varies": chance.random() < 0.3}
        for name, is_so in ways.items():
            if is_so:
                (folder / name).touch()
        options: list[object] = ["--epochs", job.epochs, "--workers", chance.choice(("1:4", "1:2", 2, 1))]
        if chance.random() < 0.3:
            options += ["--deadline", DEADLINE]
        if chance.random() < 0.3:
            options += ["--devices-per-worker", 2]
        words = submission(folder, "--no-wait", *options, script=script)
        return job, [*words, f"word-{number}"] if is_new or chance.random() < 0.3 else words

    def submit(self) -> Job:
        job, words = self.prepare()
        return self.note(job, job_id(self._swell.ok(*words)))

    def note(self, job: Job, name: str) -> Job:
        job.id = name
        self.every[name] = job
        return job

    def processes_of(self, name: str, pid: int) -> list[int]:
        """Of the worker of a job that has this one."""
        found = {path: int(path.read_text() or 0) for path in self.every[name].folder.glob("process-*")}
        own = [path.stem for path, other in found.items() if other == pid]
        return [other for path, other in found.items() if path.stem in own] or [pid]

    def check(self, view: JobView) -> None:
        """It ended as it should, and saw each sample once an epoch."""
        job = self.every[view.id]
        if job.is_cancelled and view.phase is Phase.CANCELLED:
            return
        if job.is_fixed:
            assert view.phase is (Phase.TIMED_OUT if job.fails else Phase.SUCCEEDED), view
            assert (job.folder / "done").exists() != job.fails and not (job.folder / "twice").exists()
            return
        if job.fails:
            assert view.phase is Phase.FAILED, view
            assert "a mistake of the script's own" in view.message, view.message
            return
        assert view.phase is Phase.SUCCEEDED, view
        found = json.loads((job.folder / "tally.json").read_text())
        steps = job.epochs * NUM_SAMPLES // BATCH
        expected = -job.epochs / BATCH
        assert found == {"steps": steps, "least": expected, "most": expected}, (view.id, found)
