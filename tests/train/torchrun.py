"""Scripts under torchrun, whose launcher and workers are forked from a process that has imported torch.

Three programs that each import it take seconds of a processor. `test_standalone_run.py` starts them as
users do.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.eventually import PATIENCE_S
from tests.train.fake_agent import FORKING

#: Its own way to start a script: in forks of the launcher.
WORDS = ("--standalone", "--run-path", "--start-method", "fork", "--nproc-per-node")


def run_under_torchrun(num_workers: int, folder: Path, script: Path, *args: object) -> tuple[int | None, str]:
    """In this folder. The exit status of the launcher, and what it and the workers wrote."""
    log = folder.with_name(f"{folder.name}-torchrun.log")
    words = (*WORDS, num_workers, script, *args)
    launcher = FORKING.Process(target=_launch, args=(tuple(map(str, words)), folder, log))
    launcher.start()
    launcher.join(PATIENCE_S)
    return launcher.exitcode, log.read_text()


def _launch(words: tuple[str, ...], folder: Path, log: Path) -> None:
    from torch.distributed import run

    with log.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    os.chdir(folder)
    run.main(words)
