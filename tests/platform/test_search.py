"""The search of `examples/search.py`: an Optuna study on a platform of real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest
from tests.eventually import PATIENCE_S
from tests.platform.program import Program

from swell.api.client import connect

PROGRAM = Path(__file__).parents[2] / "examples/search.py"
#: In place of those of the page.
NUM_TRIALS = 4
#: Reports an accuracy that is the lower the later it begins: the last trial is worse than one that is over.
#: Its epochs take half as long as the study's looks are apart: a trial that is over before is not pruned.
TRAIN = """
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

from swell import train

BEGUN_S = time.time() - SINCE_S
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
loader = DataLoader(TensorDataset(torch.ones(256, 2)), batch_size=64)
run = train.elastic(model, optimizer, loader, epochs=9)
for epoch in run.epochs():
    time.sleep(0.25)
    for (x,) in run.batches():
        optimizer.zero_grad()
        loss = model(x).mean()
        run.backward(loss)
        run.step()
    run.report(accuracy=1 - BEGUN_S / 1000)
"""


@pytest.mark.slow
def test_a_study_prunes_trials_that_are_worse_and_finds_the_best(swell: Program, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN.replace("SINCE_S", f"{time.time()}"))
    program = PROGRAM.read_text()
    assert "n_trials=9" in program
    (tmp_path / "search.py").write_text(program.replace("n_trials=9", f"n_trials={NUM_TRIALS}"))
    environ = {**os.environ, "SWELL_STATE": str(swell.state)}
    done = subprocess.run(
        [sys.executable, "search.py"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    study = optuna.load_study(study_name="lr", storage=f"sqlite:///{tmp_path}/study.db")
    states = {trial.number: trial.state for trial in study.trials}
    pruned = {number for number, state in states.items() if state == optuna.trial.TrialState.PRUNED}
    complete = {number for number, state in states.items() if state == optuna.trial.TrialState.COMPLETE}
    assert pruned and complete and len(pruned | complete) == NUM_TRIALS, states
    best = study.best_trial
    with connect(swell.state) as client:
        phases = {
            int(view.name.removeprefix("lr-")): client.wait(view.id, timeout_s=PATIENCE_S).phase
            for view in client.jobs()
            if view.group == "lr"
        }
    assert phases.keys() == states.keys()
    for number, phase in phases.items():  # one may have been done before it was cancelled
        assert phase == "succeeded" or (phase == "cancelled" and number in pruned), (number, phase)
    assert f"best accuracy {best.value:.4g}: lr-{best.number}-" in swell.ok("jobs", "--group", "lr")
    assert done.stdout.startswith(f"{best.number} ")
