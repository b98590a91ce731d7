"""Fixtures for jobs in containers: an engine, and an executor whose jobs name its image."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.executors.agents import CALL
from tests.executors.container_engines import (
    TestedEngine,
    fake_apptainer,
    fake_docker,
    real_docker,
    real_podman,
)
from tests.executors.puppets import make_spec

from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.containers.engine import ContainerKind
from swell.executors.local.devices import parse_devices
from swell.executors.local.launch import stop_agent
from swell.executors.local.link import LocalExecutor
from swell.model.job import JobSpec

STARTERS = {"fake": fake_docker, "apptainer": fake_apptainer, "docker": real_docker, "podman": real_podman}


@contextmanager
def started(kind: str) -> Iterator[TestedEngine]:
    """`kind`: of `STARTERS`. In a folder with a short name, for its sockets."""
    folder = Path(tempfile.mkdtemp(prefix="engine-"))
    try:
        with STARTERS[kind](folder) as engine:
            yield engine
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def contained_executor(state_dir: Path, engine: TestedEngine, **changes: Any) -> LocalExecutor:
    """With fake workers."""
    options: dict[str, Any] = {"containers": ContainerKind(engine.name)} | changes
    nodes = parse_devices("paced:8@400")
    of_agent = AgentOptions(state_dir=state_dir, preload=("msgspec",), call=CALL, **options)
    return LocalExecutor(of_agent, nodes)


@contextmanager
def executors(state_dir: Path, engine: TestedEngine, **changes: Any) -> Iterator[Callable[[], LocalExecutor]]:
    """Of one state folder, with fake workers; nothing of theirs is left behind."""
    made: list[LocalExecutor] = []

    def make() -> LocalExecutor:
        made.append(contained_executor(state_dir, engine, **changes))
        return made[-1]

    try:
        yield make
    finally:
        for executor in made:
            executor.close()
        stop_agent(state_dir)


def contained_job(engine: TestedEngine, workdir: Path, **args: object) -> JobSpec:
    """A job of the fake worker, with what it is to do."""
    settings = tuple(f"{name}={value}" for name, value in args.items())
    entry = str(workdir / "train.py")
    return make_spec(entry=entry, workdir=str(workdir), args=settings, image=engine.image)


def engine_params(*real_marks: Any) -> list[Any]:
    """Two stand-ins, then real ones."""
    return ["fake", "apptainer", *(pytest.param(name, marks=real_marks) for name in ("docker", "podman"))]
