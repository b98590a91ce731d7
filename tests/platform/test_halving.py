"""Trials of real processes, compared over the death of the daemon.

Takes seconds: two trials are measured and train, and a daemon starts again between them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.platform.program import Program, kill

from swell.store.folder import StateFolder

TRIAL = """
import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

from swell import train

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
loader = DataLoader(TensorDataset(torch.ones(128, 2)), batch_size=64)
run = train.elastic(model, optimizer, loader, epochs=1)
for epoch in run.epochs():
    for (x,) in run.batches():
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        run.step(loss)
    run.report(error=float(sys.argv[1]))
    if Path("enough").exists():
        break
"""
JOB = """
name: error-{error}
script: trial.py
args: ["{error}"]
global_batch: 64
epochs: 100000000
workers: "1"
group: errors
metric: error
metric_goes: down
halving: {{first: 2, factor: 3, by: epochs}}
"""


def submitted(swell: Program, folder: Path, error: str) -> str:
    file = folder / f"{error}.yaml"
    file.write_text(JOB.format(error=error))
    return swell.ok("submit", file).split(":")[0]


@pytest.mark.slow
def test_a_worse_trial_is_saved_and_ends_and_the_rungs_outlive_the_daemon(
    swell: Program, tmp_path: Path
) -> None:
    (tmp_path / "trial.py").write_text(TRIAL)
    best = submitted(swell, tmp_path, "0.125")
    swell.await_job(best, lambda view: view.rung >= 1, "the first rung")
    daemon = swell.daemon_pid
    assert daemon is not None
    kill(daemon)
    swell.up()
    worse = submitted(swell, tmp_path, "0.5")
    ended = swell.await_end(worse)
    assert (ended.reason_code, ended.reason) == (
        "stopped_early",
        "stopped early: rank 2 of 2 at rung 1 by error",
    )
    assert ended.steps >= 4 and ended.metrics["error"] == 0.5
    folder = StateFolder(swell.state).path / "jobs" / worse
    assert list(folder.rglob("*checkpoint*")), "what it has learnt is kept"
    table = swell.ok("jobs", "--group", "errors")
    assert "RUNG" in table and "1, 2 of 2" in table
    assert f"1 stopped early; best error 0.125: {best}" in table
    assert swell.job(best).phase == "running", "the better one trains on"
    assert f"{worse}: stopped early: rank 2 of 2" in swell.ok("wait", worse)
    again = swell.ok("continue", worse).split(":")[0]
    assert swell.await_end(again).reason == "stopped early: rank 2 of 2 at rung 2 by error"
    assert f"keeps the place of {worse}: rank 2 of 2 at rung 1 by error" in swell.ok("explain", again)
    swell.finish(best, tmp_path)
