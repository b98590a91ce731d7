"""Each script as a reader would try it: alone, by its path, for an epoch or two."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import swell.demo

#: script -> (arguments, metric, how good it must be after so little)
SHORT: dict[str, tuple[list[str], str, Callable[[float], bool]]] = {
    "cnn.py": (["--epochs", "2"], "accuracy", lambda value: value > 0.5),
    "vae.py": (["--epochs", "1"], "held_out_loss", lambda value: value < 32),
    "gru.py": (
        ["--epochs", "1", "--sequences", "512", "--batch", "16"],
        "held_out_loss",
        lambda value: value < 3.2,
    ),
    "transformer.py": (
        ["--epochs", "1", "--sequences", "512", "--batch", "16"],
        "held_out_loss",
        lambda value: value < 3.2,
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """All at once: most of their time is the import of torch."""
    folder = Path(swell.demo.__file__).parent
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    started = {
        script: subprocess.Popen(
            [sys.executable, str(folder / script), *arguments],
            cwd=elsewhere,
            env=os.environ | {"OMP_NUM_THREADS": "1"},  # four at once on few cores
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for script, (arguments, _, _) in SHORT.items()
    }
    yield started
    for process in started.values():
        process.kill()
        process.communicate()


@pytest.mark.parametrize("script", SHORT)
def test_runs_alone_and_begins_to_learn(script: str, runs: dict[str, subprocess.Popen[str]]) -> None:
    _, metric, is_good = SHORT[script]
    output, errors = runs[script].communicate(timeout=100)
    assert runs[script].returncode == 0, errors
    values = [float(value) for value in re.findall(rf"{metric}=(\S+)", output)]
    assert values, output
    assert is_good(values[-1])
