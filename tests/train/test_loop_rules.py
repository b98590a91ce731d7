"""Loops that would train something else than their plain form, and what they are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.fake_agent import FakeAgent
from tests.train.test_schedule_ends import SCHEDULED
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.wire import messages


def make_loop() -> tuple[nn.Linear, optim.Optimizer, DataLoader[Any]]:
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    data = TensorDataset(torch.arange(24.0).unsqueeze(1))
    return model, optim.SGD(model.parameters(), 1e-4), DataLoader(data, batch_size=4)


@pytest.mark.parametrize("clears", [True, False])
def test_a_prefetcher_is_told_that_it_asks_too_soon(clears: bool) -> None:
    model, optimizer, loader = make_loop()
    run = train.elastic(model, optimizer, loader, epochs=2)
    batches = iter(run.batches())
    coming = next(batches)
    with pytest.raises(train.LoopError, match=r"before the next one is asked for"):
        while coming is not None:
            (x,), coming = coming, next(batches, None)
            if clears:
                optimizer.zero_grad()
            loss = model(x).square().mean()
            run.backward(loss)
            run.step()
    assert run.steps == 0


@pytest.mark.parametrize("is_lasting", [True, False])
@pytest.mark.parametrize("num_before", [0, 3])
@pytest.mark.parametrize("leaves_out", ["at once", "by its loss", "by its loss, zeroed"])
def test_a_loop_that_leaves_out_a_batch_is_told_how(
    leaves_out: str, num_before: int, is_lasting: bool
) -> None:
    model, optimizer, loader = make_loop()
    run = train.elastic(model, optimizer, loader, epochs=2)
    num_seen = 0
    with pytest.raises(train.LoopError, match=r"where they are read.*weight=0"):
        for (x,) in run.batches():
            num_seen += 1
            is_bad = num_seen > num_before and (is_lasting or num_seen == num_before + 1)
            if is_bad and leaves_out == "at once":
                continue
            optimizer.zero_grad(set_to_none=leaves_out == "by its loss")
            loss = model(x).square().mean()
            if is_bad:
                continue
            run.backward(loss)
            run.step()
    assert run.steps == num_before


def test_a_batch_with_a_weight_of_0_is_left_out() -> None:
    model, optimizer, loader = make_loop()
    run = train.elastic(model, optimizer, loader, epochs=1)
    for number, (x,) in enumerate(run.batches()):
        before = model.weight.detach().clone()
        if number % 2:
            run.backward(torch.zeros(()), weight=0)
            run.step()
        else:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            run.backward(loss, weight=len(x))
            run.step()
        assert bool((model.weight == before).all()) == bool(number % 2)
    assert run.steps == 6


@pytest.mark.parametrize("per", ["step", "epoch"])
@pytest.mark.parametrize("kind", ["StepLR", "OneCycleLR", "LambdaLR", "SequentialLR"])
def test_a_scheduler_that_is_given_and_stepped_by_hand_is_refused(per: str, kind: str) -> None:
    model, optimizer, loader = make_loop()
    rates = optim.lr_scheduler
    made: Callable[[], Any] = {
        "StepLR": lambda: rates.StepLR(optimizer, 3),
        "OneCycleLR": lambda: rates.OneCycleLR(optimizer, 0.1, total_steps=100),
        "LambdaLR": lambda: rates.LambdaLR(optimizer, lambda step: 0.9**step),
        "SequentialLR": lambda: rates.SequentialLR(
            optimizer, [rates.ConstantLR(optimizer), rates.StepLR(optimizer, 3)], [2]
        ),
    }[kind]
    scheduler = made()
    run = train.elastic(model, optimizer, loader, epochs=3, scheduler=scheduler)
    with pytest.raises(train.LoopError, match=r"calls scheduler\.step.*Take the call out"):
        for _ in run.epochs():
            for (x,) in run.batches():
                optimizer.zero_grad()
                loss = model(x).square().mean()
                run.backward(loss)
                run.step()
                if per == "step":
                    scheduler.step()
            if per == "epoch":
                scheduler.step()
    assert run.steps == 6


def test_one_that_is_stepped_by_elastic_alone_is_not() -> None:
    model, optimizer, loader = make_loop()
    scheduler = optim.lr_scheduler.StepLR(optimizer, 3)
    run = train.elastic(model, optimizer, loader, epochs=3, scheduler=scheduler)
    for _ in run.epochs():
        for (x,) in run.batches():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            run.backward(loss)
            run.step()
    assert scheduler.last_epoch == 18


@pytest.mark.parametrize("local_batches", [(), (12,)])
def test_a_trial_run_finds_it(
    start_agent: Callable[..., FakeAgent], tmp_path: Path, local_batches: tuple[int, ...]
) -> None:
    script = tmp_path / "stepped.py"
    script.write_text(SCHEDULED.format(scheduler="StepLR(optimizer, 100)", after_step="scheduler.step()"))
    agent = start_agent(
        mode="profile", global_batch=12, total_steps=None, local_batches=local_batches, compares=True
    )
    agent.start(0, script)
    assert agent.exit_status(0) == 1
    assert "the script calls scheduler.step()" in agent.all_said(messages.Failed)[0][1].message


def test_a_loop_that_asks_for_batches_for_ever_is_told() -> None:
    model = nn.Linear(1, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(4, 1)), batch_size=2)
    run = train.elastic(model, optimizer, loader, steps=3)
    with pytest.raises(train.LoopError, match="the script asks for batches again"):
        while True:
            for (x,) in run.batches():
                run.backward(model(x).square().mean())
                run.step()
