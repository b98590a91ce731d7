"""Run a script of a library without Swell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch
from tests.eventually import PATIENCE_S

_IN_DOUBLE = (
    "import runpy, sys, torch; torch.set_default_dtype(torch.float64); runpy.run_path(sys.argv.pop(1))"
)


def alone(script: Path, folder: Path, *args: str) -> dict[str, torch.Tensor]:
    """What the script, computing in float64, leaves at the path that is its argument."""
    folder.mkdir()
    command = [sys.executable, "-c", _IN_DOUBLE, str(script), str(folder / "final.pt"), *args]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    learnt: dict[str, torch.Tensor] = torch.load(folder / "final.pt")
    return learnt
