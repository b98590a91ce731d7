"""The local executor, on real processes that only pretend to train."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.executors.contract import ExecutorContract, MakeJob
from tests.executors.puppets import devices, make_spec

from swell.model.job import JobSpec


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    def make(entry: str = "/scripts/train.py", **args: object) -> JobSpec:
        settings = tuple(f"{name}={value}" for name, value in args.items())
        return make_spec(entry=entry, workdir=str(tmp_path), args=settings)

    return make


@pytest.fixture
def device_ids() -> tuple[str, ...]:
    return devices(*range(8))


class TestLocalExecutor(ExecutorContract):
    pass
