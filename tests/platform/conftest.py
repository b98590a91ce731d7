"""One platform for all tests of this folder: what it takes to start and to measure is paid once."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.platform.program import PLANE, STEPS_PER_EPOCH, CheckLearned, Program, read_weights
from tests.train.fake_agent import FORKING

from swell.api.client import connect

torch = pytest.importorskip("torch")

WORKERS = ("1:4", "2", "4")
#: At least, of plane.py by itself: more than jobs here make, as a rule.
ALONE_EPOCHS = 60


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Its plane.py has been through a trial run for each range of workers that most tests give it."""
    folder = tmp_path_factory.mktemp("platform")
    program = Program(folder / "state")
    with ExitStack() as ending:
        ending.callback(program, "down")
        program.up()
        jobs = [program.submit(folder, "--steps", 8, "--workers", workers) for workers in WORKERS]
        for job in jobs:
            program.await_end(job)
        yield program
    assert program.processes() == set()


@pytest.fixture
def swell(program: Program) -> Iterator[Program]:
    """The program with its platform up and idle."""
    if program.daemon_pid is None:
        program.up()
    yield program
    if program.daemon_pid is None:
        program.up()
    end_jobs(program)


def end_jobs(program: Program) -> None:
    """Those that a test has left."""
    with connect(program.state) as client:
        open_jobs = [job.id for job in client.jobs() if not job.phase.is_end]
        for job in open_jobs:
            client.cancel(job)
    for job in open_jobs:
        program.await_job(job, lambda view: view.phase.is_end, f"end of {job}")


@pytest.fixture(scope="session")
def other_program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    program = Program(tmp_path_factory.mktemp("apart") / "state")
    yield program
    program("down")
    assert program.processes() == set()


@pytest.fixture
def apart(other_program: Program) -> Iterator[Program]:
    """A platform for tests that each start it under another policy: a trial run of one serves the others."""
    yield other_program
    if other_program.daemon_pid is not None:
        end_jobs(other_program)


@pytest.fixture(scope="session")
def check_learned(tmp_path_factory: pytest.TempPathFactory) -> CheckLearned:
    """Whether a folder has the weights that plane.py finds by itself, in one process, after as many steps."""
    known: list[Any] = []

    def check(folder: Path) -> int:
        found = read_weights(folder)
        epochs, rest = divmod(found["steps"], STEPS_PER_EPOCH)
        assert rest == 0
        if epochs > len(known):
            known[:] = weights_of_epochs(tmp_path_factory.mktemp("alone"), max(epochs, ALONE_EPOCHS))
        np.testing.assert_allclose(found["weight"], known[epochs - 1], rtol=1e-9)
        return int(found["steps"])

    return check


def _alone(folder: Path, epochs: int) -> None:
    torch.set_num_threads(1)
    os.chdir(folder)
    sys.argv[1:] = [str(epochs)]
    runpy.run_path(str(PLANE), run_name="__main__")


def weights_of_epochs(folder: Path, epochs: int) -> list[Any]:
    alone = FORKING.Process(target=_alone, args=(folder, epochs))
    alone.start()
    alone.join()
    assert alone.exitcode == 0
    found = [json.loads(line) for line in (folder / "weights-of-epochs").read_text().splitlines()]
    shutil.rmtree(folder)
    assert len(found) == epochs
    return found
