"""A schedule that ends before its job is refused before that trains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.train.fake_agent import FakeAgent

from swell.model.failure import failure_sentence
from swell.script_facts import ScriptNumbers
from swell.wire import messages

#: A script with a scheduler that `elastic` steps; line 12 calls it.
SCHEDULED = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from swell import train

x = torch.randn(600, 6)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 12, shuffle=True)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.{scheduler}
run = train.elastic(model, optimizer, loader, epochs=8, scheduler=scheduler)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = (model(a) - b).square().mean()
        run.backward(loss)
        run.step()
        {after_step}
"""
ONE_CYCLE = "OneCycleLR(optimizer, 0.1, epochs=8, steps_per_epoch=len(loader))"


COSINE = "CosineAnnealingLR(optimizer, 8 * len(loader))"


def trial_of(
    start_agent: Callable[..., FakeAgent], folder: Path, scheduler: str = ONE_CYCLE, **fields: Any
) -> FakeAgent:
    script = folder / "one_cycle.py"
    script.write_text(SCHEDULED.format(scheduler=scheduler, after_step=""))
    agent = start_agent(mode="profile", local_batches=(12,), compares=False, **fields)
    agent.start(0, script)
    agent.exit_status(0)
    return agent


@pytest.mark.parametrize(
    "fields",
    [{"global_batch": 6, "total_steps": None, "epochs": 8}, {"global_batch": 12, "total_steps": 500}],
)
def test_a_schedule_that_ends_before_the_job_is_refused(
    start_agent: Callable[..., FakeAgent], tmp_path: Path, fields: dict[str, Any]
) -> None:
    agent = trial_of(start_agent, tmp_path, **fields)
    message = agent.all_said(messages.Failed)[0][1].message
    assert "is made for 400 steps, and the run has" in message and "step 401 would fail" in message
    assert failure_sentence(message).endswith("(one_cycle.py:12)")  # where it calls `elastic`


def test_a_job_that_may_end_before_is_not(start_agent: Callable[..., FakeAgent], tmp_path: Path) -> None:
    target = messages.EarlyStop(name="accuracy", value=0.9, at_least=True)
    agent = trial_of(start_agent, tmp_path, global_batch=12, total_steps=500, target=target)
    assert agent.all_said(messages.Profiled)


OWN = ScriptNumbers(batch=12, epochs=8, num_steps=400, has_schedule=True)


@pytest.mark.parametrize(
    "fields",
    [
        {"global_batch": 12, "total_steps": None, "epochs": 16},
        {"global_batch": 0, "total_steps": None},
        {"global_batch": 24, "total_steps": None},
    ],
)
def test_a_trial_run_tells_the_scripts_own_numbers_whatever_those_of_the_job_are(
    start_agent: Callable[..., FakeAgent], tmp_path: Path, fields: dict[str, Any]
) -> None:
    profiled = trial_of(start_agent, tmp_path, COSINE, **fields).all_said(messages.Profiled)[-1][1]
    assert (profiled.own, profiled.findings) == (OWN, [])


@pytest.mark.parametrize(
    ("batch", "num_steps", "told"),
    [
        (12, 400, []),
        (
            12,
            800,
            [
                "the job has 800 steps where its script has 400: the job's count. A schedule of learning "
                "rates for 400 steps ends before the job does"
            ],
        ),
        (
            24,
            200,
            ["the job has 24 samples a step where its script has 12, and 200 steps where its script has 400: "
            "the job's count"],
        ),
    ],
)  # fmt: skip
def test_a_job_with_other_numbers_than_its_script_is_told_which_count(
    batch: int, num_steps: int, told: list[str]
) -> None:
    found = [(one.text, one.holds) for one in OWN.unlike(batch, num_steps)]
    assert found == [(text, False) for text in told]
