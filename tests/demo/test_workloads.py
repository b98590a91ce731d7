"""Each script as a reader would try it: alone, by its path, for an epoch or two.

One is a program of its own. The others are forked from a process that has imported torch: they would spend
most of their time on that.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.eventually import PATIENCE_S
from tests.train.fake_agent import fork_script

from swell_papers.live_run import SCRIPTS

#: script -> (arguments, metric, how good it must be after so little)
SHORT: dict[str, tuple[list[str], str, Callable[[float], bool]]] = {
    "cnn.py": (["--epochs", "2"], "accuracy", lambda value: value > 0.5),
    "vae.py": (["--epochs", "1"], "held_out_loss", lambda value: value < 32),
    "letters.py --model gru": (
        ["--epochs", "1", "--sequences", "512", "--batch", "16"],
        "held_out_loss",
        lambda value: value < 3.2,
    ),
    "lstm_crf.py": (["--epochs", "1"], "held_out_loss", lambda value: value < 0.9),
    "lstm.py": (["--epochs", "1"], "held_out_loss", lambda value: value < 3.2),
    "birnn.py": (["--epochs", "2"], "held_out_loss", lambda value: value < 0.08),
    "perceptron.py": (["--steps", "600"], "accuracy", lambda value: value > 0.8),
    "letters.py --model transformer": (
        ["--epochs", "1", "--sequences", "512", "--batch", "16"],
        "held_out_loss",
        lambda value: value < 3.2,
    ),
}


OWN_PROGRAM = "letters.py --model gru"


@pytest.mark.slow
@pytest.mark.parametrize("script", SHORT)
def test_runs_alone_and_begins_to_learn(script: str, tmp_path: Path) -> None:
    arguments, metric, is_good = SHORT[script]
    name, *model = script.split()
    path = next(file for folder in SCRIPTS if (file := folder / name).is_file())
    log = tmp_path / "log"
    environ = {"OMP_NUM_THREADS": "1"}
    if script == OWN_PROGRAM:
        with log.open("wb") as out:
            words = [sys.executable, str(path), *model, *arguments]
            subprocess.run(
                words, cwd=tmp_path, env=os.environ | environ, stdout=out, stderr=out, timeout=PATIENCE_S
            ).check_returncode()
    else:
        process = fork_script(path, [*model, *arguments], log, environ)
        process.join(PATIENCE_S)
        assert process.exitcode == 0, log.read_text()
    values = [float(value) for value in re.findall(rf"{metric}=(\S+)", log.read_text())]
    assert values, log.read_text()
    assert is_good(values[-1])
