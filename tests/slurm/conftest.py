"""A real Slurm for each test, which takes a third of a second to start, and a platform on it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.platform.program import Program
from tests.slurm.cluster import SlurmCluster, why_not


@pytest.fixture
def num_nodes() -> int:
    """Of `slurm`. A module may have its own."""
    return 2


@pytest.fixture
def slurm(num_nodes: int) -> Iterator[SlurmCluster]:
    """What a test has started there is gone after it."""
    if why_not():
        pytest.skip(why_not())
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    try:
        with SlurmCluster(folder, num_nodes) as made:
            yield made
        assert not list(made.left())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def program(slurm: SlurmCluster) -> Iterator[Program]:
    made = Program(slurm.folder / "platform" / "state", slurm.environ)
    yield made
    made("down")
    made.await_processes(0)
