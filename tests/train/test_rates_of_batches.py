"""Learning rates and schedules of a loop whose batch changes: by the declared rule, and by samples."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell.train import Run, elastic

NUM_SAMPLES, OWN = 60, 8
PER_EPOCH = math.ceil(NUM_SAMPLES / OWN)


def train(batches: list[int], epochs: int = 3, **options: Any) -> tuple[Run, list[float], list[int]]:
    """Returns the run, and the rate and the batch of each update; the batches come round again."""
    torch.manual_seed(3)
    x = torch.randn(NUM_SAMPLES, 4)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (1 + step))
    loader = DataLoader(TensorDataset(x), batch_size=OWN, shuffle=True)
    run = elastic(model, optimizer, loader, epochs=epochs, scheduler=scheduler, **options)
    rates: list[float] = []
    had: list[int] = []
    optimizer.register_step_pre_hook(lambda *_: rates.append(optimizer.param_groups[0]["lr"]))
    optimizer.register_step_pre_hook(lambda *_: had.append(run.global_batch))
    for _ in run.epochs():
        while not run.should_stop() and run.epoch == _:
            run._task.course.batch = batches[run.updates % len(batches)]
            run._host.edition = run.updates  # what was loaded ahead is void
            for (part,) in run._passes():
                optimizer.zero_grad()
                loss = model(part).square().mean()
                run.backward(loss)
                run.step()
    return run, rates, had


def weights(run: Run) -> list[float]:
    flat: list[float] = torch.cat([p.detach().flatten() for p in run._task.state.model.parameters()]).tolist()
    return flat


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=5), st.sampled_from(("none", "linear", "square_root"))
)
def test_a_rate_is_that_of_the_samples_so_far_times_what_the_rule_says_of_the_batch(
    batches: list[int], rule: str
) -> None:
    run, rates, had = train(batches, rate_rule=rule)
    assert run.steps == run.total_steps == 3 * PER_EPOCH and run.samples == 3 * NUM_SAMPLES
    assert run.updates == len(rates)
    factors = {"none": lambda s: 1.0, "linear": lambda s: s, "square_root": math.sqrt}
    start = epoch = 0
    for rate, batch in zip(rates, had, strict=True):
        own_steps = epoch * PER_EPOCH + start // OWN
        assert rate == pytest.approx(0.5 / (1 + own_steps) * factors[rule](batch / OWN))
        start = min(NUM_SAMPLES, start + batch)
        if start == NUM_SAMPLES:
            start, epoch = 0, epoch + 1
    assert run._task.state.optimizer.param_groups[0]["lr"] == 0.5 / (1 + run.steps), "scaled in steps only"


@pytest.mark.parametrize("rule", ["linear", "square_root"])
def test_with_the_own_batch_a_rule_changes_no_bit(rule: str) -> None:
    assert weights(train([OWN], rate_rule=rule)[0]) == weights(train([OWN])[0])
    assert weights(train([2 * OWN], rate_rule=rule)[0]) != weights(train([2 * OWN])[0])


def test_a_script_may_go_on_with_another_batch_of_its_own(saves_each_step: None) -> None:
    """Its place is where it was, and from then on steps are of the new batch."""
    for batch, epochs in ((8, 1), (20, 3)):
        model = nn.Linear(1, 1)
        loader = DataLoader(TensorDataset(torch.ones(NUM_SAMPLES, 1)), batch_size=batch)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        run = elastic(model, optimizer, loader, epochs=epochs)
        if batch == 20:
            assert (run.epoch, run.samples, run.steps, run.updates) == (1, 60, 3, 8)
        for _ in run.epochs():
            for (part,) in run.batches():
                loss = model(part).square().mean()
                run.backward(loss)
                run.step()
    assert (run.samples, run.steps, run.updates) == (180, 9, 8 + 6)


def test_what_cannot_be_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match="choose from none, linear, square_root"):
        train([OWN], rate_rule="cubic")
