"""Where a job's batch and end are not those of its script, its owner is told before it trains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.train.fake_agent import FakeAgent

from swell.model.failure import failure_sentence
from swell.wire import messages
from swell.wire.findings import ScriptFinding
from swell.wire.job_lengths import JobLength

ONE_CYCLE = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from swell import train

x = torch.randn(600, 6)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 12, shuffle=True)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=8, steps_per_epoch=len(loader))
run = train.elastic(model, optimizer, loader, epochs=8, scheduler=scheduler)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = (model(a) - b).square().mean()
        loss.backward()
        run.step(loss)
"""


def trial_of(start_agent: Callable[..., FakeAgent], folder: Path, **fields: Any) -> FakeAgent:
    script = folder / "one_cycle.py"
    script.write_text(ONE_CYCLE)
    agent = start_agent(mode="profile", local_batches=(12,), compares=False, **fields)
    agent.start(0, script)
    agent.exit_status(0)
    return agent


def found_in(agent: FakeAgent) -> list[ScriptFinding]:
    """What is told of lengths: a busy machine may lack the time for other checks, which is told, too."""
    findings = agent.all_said(messages.Profiled)[0][1].findings
    return [found for found in findings if found.name in ("job-differs", "schedule-length")]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"global_batch": 12, "total_steps": None}, []),
        ({"global_batch": 12, "total_steps": None, "epochs": 8}, []),
        ({"global_batch": 12, "total_steps": 399}, []),
        (
            {"global_batch": 24, "total_steps": None, "epochs": 8},
            [
                "the job says batch 24, and the script 12; what was submitted counts",
                "a OneCycleLR, is made for 400 steps, and the job has 200, of 24 samples: its last rates",
            ],
        ),
        (
            {"global_batch": 12, "total_steps": None, "epochs": 2.5},
            ["the job says epochs 2.5, and the script 8;", "and the job has 125, of 12 samples"],
        ),
    ],
)
def test_a_schedule_that_is_longer_than_the_job_is_told(
    start_agent: Callable[..., FakeAgent], tmp_path: Path, fields: dict[str, Any], told: list[str]
) -> None:
    agent = trial_of(start_agent, tmp_path, **fields)
    findings = found_in(agent)
    assert [part for part, found in zip(told, findings, strict=True) if part not in found.text] == []
    assert not any(found.holds for found in findings)
    own = JobLength(batch=12, epochs=8, steps=None, schedules=[("OneCycleLR", 400)])
    assert agent.all_said(messages.Profiled)[0][1].own_length == own  # which the next job is compared with


@pytest.mark.parametrize(
    "fields",
    [{"global_batch": 6, "total_steps": None, "epochs": 8}, {"global_batch": 12, "total_steps": 500}],
)
def test_a_schedule_that_ends_before_the_job_is_refused(
    start_agent: Callable[..., FakeAgent], tmp_path: Path, fields: dict[str, Any]
) -> None:
    agent = trial_of(start_agent, tmp_path, **fields)
    message = agent.all_said(messages.Failed)[0][1].message
    assert "is made for 400 steps, and the job has" in message and "step 401 would fail" in message
    assert failure_sentence(message).endswith("(one_cycle.py:12)")  # where it calls `elastic`


def test_a_job_that_may_end_before_is_not(start_agent: Callable[..., FakeAgent], tmp_path: Path) -> None:
    target = messages.EarlyStop(name="accuracy", value=0.9, at_least=True)
    agent = trial_of(start_agent, tmp_path, global_batch=12, total_steps=500, target=target)
    assert found_in(agent) == []
