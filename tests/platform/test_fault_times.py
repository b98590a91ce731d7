"""How long a job trains less, or not, when one of its workers dies or is stopped: with the default settings.

`python -m pytest -m bench -s tests/platform/test_fault_times.py`
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.platform.faulty import Faulty
from tests.platform.program import DEVICES, Program, read_diary

CASES = [
    (size, rank, number, num_loaders)
    for number in (signal.SIGKILL, signal.SIGSTOP)
    for size, rank in ((2, 0), (2, 1), (4, 0), (4, 2))
    for num_loaders in (0, 2)
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    program = Program(tmp_path_factory.mktemp("times") / "state")
    program.ok("up", "--devices", DEVICES)
    yield program
    program("down")


@pytest.mark.bench
def test_how_long_a_lost_worker_costs(program: Program, tmp_path: Path) -> None:
    print("\nworkers  lost    by       loaders  known after  next step after  full size after")
    for case, (size, rank, number, num_loaders) in enumerate(CASES):
        folder = tmp_path / str(case)
        folder.mkdir()
        if num_loaders:
            (folder / "loads").write_text(str(num_loaders))
        job = Faulty(program, folder, size)
        known_s, step_s, full_s = lose(job, rank, number)
        whom = f"rank {rank}"
        print(
            f"{size:<7}  {whom}  {number.name}  {num_loaders:<7}  {known_s:9.2f} s  {step_s:13.2f} s  "
            f"{full_s:13.2f} s",
            flush=True,
        )
        assert step_s < 10.0
        program.ok("cancel", job.id)
        program.await_job(job.id, lambda view: view.phase.is_end, "its end")


def lose(job: Faulty, rank: int, number: signal.Signals) -> tuple[float, float, float]:
    """Seconds until the head knows, until a step without the one that is lost, and at full size again."""
    pid, begin, begun_s = job.pids[rank], len(read_diary(job.folder)), time.time()
    os.kill(pid, number)

    def next_step(size: int) -> float:
        eventually(
            lambda: any(entry.num_workers == size for entry in read_diary(job.folder)[begin:]), f"size {size}"
        )
        return time.time() - begun_s

    step_s = next_step(job.size - 1)
    begin = len(read_diary(job.folder))
    full_s = next_step(job.size)
    known_s = next(story.at_s for story in job.stories() if story.code == "workers_lost") - begun_s
    return known_s, step_s, full_s
