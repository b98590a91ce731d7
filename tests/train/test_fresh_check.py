"""A script that computes on a GPU is held for what it would be held for on CPUs.

There is no GPU: the scripts have torch say that it uses one, and then a process is not forked.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent

from swell.wire import messages

SCRIPT = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from swell import train
from swell.train.runtime import resume_check
resume_check.BUDGET_S = resume_check.FIRST_S = 60  # a busy machine is to try all of it
import os
torch.cuda.is_initialized = lambda: True
{before}
x = torch.randn(60, 2)
def fit():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    run = train.elastic(model, optimizer, DataLoader(TensorDataset(x), 6), epochs=9)
    num_batches = 0
    for epoch in run.epochs():
        for i, (batch,) in enumerate(run.batches()):
            num_batches += 1
            optimizer.zero_grad()
            loss = model(batch).square().mean() * (1.0 if {condition} else 0.1)
            loss.backward()
            run.step(loss)
        if run.is_leader:
            open(sys.argv[1], "a").write(f"{{epoch}} {{os.getpid()}} ")
fit()
"""


@pytest.fixture
def findings(start_agent: Callable[..., FakeAgent], tmp_path: Path) -> Callable[..., list[tuple[str, str]]]:
    def found(condition: str, before: str = "") -> list[tuple[str, str]]:
        script = tmp_path / "train.py"
        script.write_text(SCRIPT.format(condition=condition, before=before))
        agent = start_agent(mode="profile", total_steps=None, local_batches=(6,))
        agent.start(0, script, str(tmp_path / "diary"))
        assert agent.exit_status(0) == 0, agent.logs()
        _, told = agent.all_said(messages.Profiled)[0]
        return [(finding.name, finding.text) for finding in told.findings]

    return found


def test_what_begins_again_is_found_where_a_gpu_is_used(
    findings: Callable[..., list[tuple[str, str]]], tmp_path: Path
) -> None:
    [(name, text)] = findings("i < 1")
    assert name == "script-state" and "another one after 6: parameters or buffers differ" in text
    epochs = (tmp_path / "diary").read_text().split()[::2]
    assert epochs == ["0"], "of the trial run itself alone"


def test_nothing_is_found_in_a_script_that_goes_on(findings: Callable[..., list[tuple[str, str]]]) -> None:
    assert findings("run.steps < 4 and num_batches < 4") == []


def test_it_is_told_where_the_script_needs_a_gpu(findings: Callable[..., list[tuple[str, str]]]) -> None:
    before = "import os; assert os.environ.get('CUDA_VISIBLE_DEVICES') != '', 'where is my GPU?'"
    [(name, text)] = findings("run.steps < 4", before)
    assert name == "not-resumed" and "without a GPU it ends with AssertionError: where is my GPU?" in text


def test_a_fresh_process_that_takes_too_long_is_told_and_ended(
    findings: Callable[..., list[tuple[str, str]]],
) -> None:
    before = """
from swell.train.runtime import fresh_check
fresh_check.LIMIT_S = 0.2
if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
    import time; time.sleep(600)
"""
    [(name, text)] = findings("run.steps < 4", before)
    assert name == "not-resumed" and "without a GPU it takes more than 0.2 s" in text
