from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.api.conftest import control, folder, script, shared
from tests.started_program import run_program

from swell.cli import main
from swell.store.folder import StateFolder

__all__ = ["control", "folder", "script", "shared"]

Run = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).parents[2]


#: On PYTHONPATH: a fake platform behind `up` and `replay`, and the program of this tree, installed or not.
FAKES = os.pathsep.join(map(str, (ROOT / "tests" / "cli" / "fake_site", ROOT, ROOT / "src")))


#: More than a command takes on a busy machine.
LIMIT_S = 60.0


def run_swell(*words: object, **environ: str) -> subprocess.CompletedProcess[str]:
    """The program, with a fake platform behind `up` and `replay`, in a process of its own."""
    return run_program(*words, environ=plain_environ() | environ, timeout_s=LIMIT_S)


def plain_environ() -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SWELL_")}
    return plain | {"PYTHONPATH": FAKES}


@pytest.fixture
def swell(folder: StateFolder) -> Run:
    """The program against a server of this process, over a fake platform."""

    def run(*words: object, **environ: str) -> subprocess.CompletedProcess[str]:
        return run_swell(*words, **({"SWELL_STATE": str(folder.path)} | environ))

    return run


@pytest.fixture
def here(folder: StateFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The same inside this process: for many small cases, where starting a program is most of the time."""
    monkeypatch.setenv("SWELL_STATE", str(folder.path))

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        status = main.run([str(word) for word in words])
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess([str(word) for word in words], status, out, err)

    return run
