"""The jobs of the campaign, and what each of them has to come to."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos.machines.fleet import Fleet
from tests.machines.namespaces import HOME, STORAGE
from tests.machines.site import IMPORTABLE

from swell.model.job import Phase
from swell.model.view import JobView, Story

SCRIPTS = Path(__file__).parent
MOST_EPOCHS = 40
#: Before each fault. Few enough for six devices that each of them may grow, and shrinks for others.
NUM_OPEN = 4
#: Epochs of a job that comes and goes between two faults.
BRIEF = (2, 6)
COUNTED_SAMPLES, COUNTED_BATCH = 256, 32
#: What `course.py` says; other lines are of the platform.
TOLD = re.compile(r"(?:step|epoch) .*")
#: Stories of a job that lost workers, or waited for devices that were gone.
SETBACKS = ("requeued", "workers_lost", "lost", "at_risk")
#: Likewise, or of one that was about to leave the host.
ENDED = ("succeeded", "cancelled")
LEFT = (*SETBACKS, "resized", "moved", "suspended", *ENDED)
#: So long before a kill a job may have ended that the head still takes for a running one: the fault before
#: may have killed who was to tell.
UNHEARD_S = 5.0
#: From the end of workers until their job tells of it, on a machine whose cores are busy.
TOLD_WITHIN_S = 120.0


@dataclass(slots=True)
class Job:
    id: str
    num_epochs: int = 0  #: of an elastic job
    num_steps: int = 0  #: of one that is stopped and started
    may_be_refused: bool = False
    is_cancelled: bool = False
    killed_s: list[float] = field(default_factory=list)  #: when workers of it were killed with their host


class Undisturbed:
    """What one process alone says, with the same script, data and seed."""

    def __init__(self, folder: Path) -> None:
        words = [sys.executable, str(SCRIPTS / "course.py"), str(MOST_EPOCHS)]
        done = subprocess.run(words, check=True, capture_output=True, text=True, env=IMPORTABLE, cwd=folder)
        self.lines: list[str] = done.stdout.splitlines()
        self.known = frozenset(self.lines)

    def last_of(self, num_epochs: int) -> str:
        """What it says at the end of that epoch."""
        return next(line for line in self.lines if line.startswith(f"epoch {num_epochs} "))


class Work:
    def __init__(self, fleet: Fleet, folder: Path, chance: Random, epochs: tuple[int, int]) -> None:
        self._fleet, self._chance, self._epochs = fleet, chance, epochs
        self._undisturbed = Undisturbed(folder)
        self.every: dict[str, Job] = {}

    def refill(self) -> None:
        """A new one for each that has ended; the platform is up."""
        views = self._fleet.head.views()
        kinds = [self.every[view.id].num_steps > 0 for view in views if not view.phase.is_end]
        for _ in range(NUM_OPEN - len(kinds)):
            if not any(kinds):
                self.submit_counting()
                kinds.append(True)
            else:
                self.submit_course()

    def submit_course(self) -> Job:
        """An elastic job; some are promised a deadline."""
        chance = self._chance
        workers = chance.choice(("1:6", "1:6", "1:6", "1:4", "2:4", "1:2"))
        return self._submit_course(chance.randint(*self._epochs), workers, chance.random() < 0.3)

    def submit_short_course(self) -> Job:
        chance = self._chance
        workers = chance.choice(("1", "1:2", "2", "2:4", "4"))
        return self._submit_course(chance.randint(*BRIEF), workers, chance.random() < 0.5)

    def _submit_course(self, num_epochs: int, workers: str, is_strict: bool) -> Job:
        """`is_strict`: with a deadline, which it may be refused."""
        chance = self._chance
        name = self._submit(
            "course.py",
            (str(num_epochs), *self._word()),
            global_batch=64,
            epochs=num_epochs,
            workers=workers,
            deadline=f"now+{chance.randint(40, 600)}s" if is_strict else None,
            or_nothing=is_strict,
        )
        return self._note(Job(name, num_epochs=num_epochs, may_be_refused=is_strict))

    def _word(self) -> tuple[str, ...]:
        """Now and then one that no other job has, so that it has a trial run; half of these vary in speed."""
        chance = self._chance
        if chance.random() >= 0.4:
            return ()
        return (f"{chance.choice(('word', 'varies'))}-{len(self.every)}",)

    def submit_counting(self) -> Job:
        """One that is stopped and started."""
        num_steps = 8 * self._chance.randint(*self._epochs)
        name = self._submit(
            "counting.py",
            (f"{self._fleet.store}/{len(self.every)}", str(num_steps)),
            elasticity="restart",
            estimate=f"{num_steps // 10}s",
            workers="1:3",
        )
        return self._note(Job(name, num_steps=num_steps))

    def _submit(self, script: str, args: tuple[str, ...], **fields: Any) -> str:
        """In a folder of its own on the head, which no other machine has."""
        project = f"{HOME}/project-{len(self.every)}"
        folder = self._fleet.head.machine.outside(project)
        folder.mkdir(exist_ok=True)
        for name in (script, "held_devices.py"):
            shutil.copy(SCRIPTS / name, folder)
        with self._fleet.head.client() as client:
            return client.submit(script=f"{project}/{script}", workdir=project, args=args, **fields)

    def _note(self, job: Job) -> Job:
        self.every[job.id] = job
        return job

    # ------------------------------------------------------------ the end
    def check(self, view: JobView, stories: list[Story]) -> None:
        """It ended as it should, and has said nothing that it would not have said undisturbed."""
        job = self.every[view.id]
        told = "\n".join(f"{story.at_s:.2f} {story.code}: {story.text}" for story in stories)
        if job.may_be_refused and view.phase is Phase.REJECTED:
            assert view.reason, told
            return
        expected = Phase.CANCELLED if job.is_cancelled else Phase.SUCCEEDED
        assert view.phase in (expected, Phase.SUCCEEDED), f"{view}\n{told}"
        lines = self._lines(view.id)
        if job.num_epochs:
            strange = [line for line in lines if TOLD.fullmatch(line) and line not in self._undisturbed.known]
            assert not strange, (view.id, strange, told)
        if view.phase is Phase.SUCCEEDED:
            assert self._last_line(job) in lines, (view.id, lines[-20:], told)
        self._check_stories(view, job, stories, told)

    def _last_line(self, job: Job) -> str:
        if job.num_epochs:
            return self._undisturbed.last_of(job.num_epochs)
        times = job.num_steps * COUNTED_BATCH / COUNTED_SAMPLES
        return f"counted {job.num_steps} {times} {times}"

    def _lines(self, name: str) -> list[str]:
        """Whole ones, of all its workers. The link in the state folder leads elsewhere from outside."""
        logs = (self._fleet.head.machine.outside(STORAGE) / "jobs" / name).glob("worker-*.log*")
        texts = [path.read_text().rpartition("\n")[0] for path in logs]
        return [line for text in texts for line in text.splitlines()]

    def _check_stories(self, view: JobView, job: Job, stories: list[Story], told: str) -> None:
        """Each loss is told with its cause, and a promise that was not kept has one."""
        left_s = [
            story.at_s + (UNHEARD_S if story.code in ENDED else 0.0)
            for story in stories
            if story.code in LEFT
        ]
        for killed_s in job.killed_s:
            assert any(killed_s <= at_s < killed_s + TOLD_WITHIN_S for at_s in left_s), (killed_s, told)
        if view.is_promised and view.kept is False:
            assert any(story.code in SETBACKS for story in stories), told
