"""What a script reads of its run is in a trial run what it is in a job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent

from swell.wire import messages

SCRIPT = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from swell import train

num_samples, batch, epochs = (int(word) for word in sys.argv[1].split("/"))
is_met = compile(sys.argv[2], "<given>", "eval")
x = torch.randn(num_samples, 6)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=epochs)
assert run.total_steps == epochs * len(loader)
rates = torch.linspace(0.01, 0.0, run.total_steps)
made = 0
for epoch in run.epochs():
    for number, (a, b) in enumerate(run.batches(), 1):
        optimizer.param_groups[0]["lr"] = float(rates[run.steps])
        optimizer.zero_grad()
        loss = (model(a) - b).square().mean()
        run.backward(loss)
        run.step()
        made += run.has_stepped
        if eval(is_met):
            break
"""

#: Ends of an epoch, as a script may tell that one has come.
ENDS = (
    "run.steps % len(loader) == 0",
    "run.updates == len(loader) * (epoch + 1)",
    "run.samples % num_samples == 0",
    "run.steps % (num_samples // run.global_batch) == 0",
    "round(run.progress * run.total_steps) % len(loader) == 0",
    "made % len(loader) == 0",
    "number == len(loader)",
    "run.epoch > epoch",
)


def findings(
    start_agent: Callable[..., FakeAgent], script: Path, sizes: str, end: str, local_batches: tuple[int, ...]
) -> tuple[list[str], list[int]]:
    """Names of what a trial run finds, and the local batches that it measures."""
    script.write_text(SCRIPT)
    agent = start_agent(
        mode="profile", global_batch=0, total_steps=None, local_batches=local_batches, compares=True
    )
    agent.start(0, script, sizes, end)
    assert agent.exit_status(0) == 0, agent.logs()
    assert not agent.all_said(messages.NotCompared)
    told = agent.all_said(messages.Profiled)[0][1]
    return [found.name for found in told.findings if found.holds], sorted(told.compute_s)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "end"),
    [*(("24/12/2", end) for end in ENDS), ("600/12/30", ENDS[0]), ("12/12/30", ENDS[0])],
)
def test_a_script_that_ends_its_epochs_by_counts_of_the_run_is_not_refused(
    start_agent: Callable[..., FakeAgent], tmp_path: Path, sizes: str, end: str
) -> None:
    assert findings(start_agent, tmp_path / "counts.py", sizes, end, (12, 6)) == ([], [6, 12])


def test_a_trial_run_tells_no_step_that_the_job_does_not_have(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    """Its own steps are many more than the four for which the script has a learning rate."""
    script = tmp_path / "counts.py"
    assert findings(start_agent, script, "24/12/2", ENDS[0], (12, 6, 3)) == ([], [3, 6, 12])
