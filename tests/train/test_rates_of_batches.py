"""Learning rates and schedules of a loop whose batch changes: by the declared rule, and by samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell.throughput.batch_table import worth
from swell.train import Run, elastic
from swell.train.scaling import PartNorms, ScaledRate, gain_ratio, moments_of_parts

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
            run._host.edition = run.updates  # type: ignore[misc]  # what was loaded ahead is void
            for (part,) in run._passes():
                optimizer.zero_grad()
                loss = model(part).square().mean()
                loss.backward()
                run.step(loss)
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


def test_a_rule_is_part_of_the_state(saves_each_step: None) -> None:
    run, *_ = train([12], epochs=1, rate_rule="linear")
    run, rates, _ = train([12], epochs=2, rate_rule="linear")
    assert run.steps == 2 * PER_EPOCH and run.rate_factor == 1.5
    assert rates[0] == pytest.approx(0.5 / (1 + PER_EPOCH) * 1.5) and len(rates) == NUM_SAMPLES // 12
    with pytest.raises(RuntimeError, match="the state holds rate, scheduler beside"):
        train([12], epochs=3)


@pytest.mark.parametrize(("bound", "is_cut"), [(None, False), (3, False), (None, True)])
def test_adascale_is_shown_the_gradients_of_the_parts_of_a_step(
    bound: int | None, is_cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single worker cuts a step in two now and then; with passes or shards it has parts anyway."""
    seen: list[tuple[PartNorms, float]] = []
    monkeypatch.setattr(ScaledRate, "observe_parts", lambda self, *said: seen.append(said))
    gradients: list[torch.Tensor] = []
    torch.manual_seed(3)
    x = torch.randn(NUM_SAMPLES, 4)
    model = nn.Linear(4, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(x.double()), batch_size=OWN)
    options: dict[str, Any] = {"deterministic": True, "shards": 3} if is_cut else {"max_local_batch": bound}
    run = elastic(model, optimizer, loader, steps=2, rate_rule="adascale", clip_grad_norm=1e-3, **options)
    for _ in run.epochs():
        for (part,) in run.batches():
            optimizer.zero_grad()
            loss = model(part).square().mean()
            loss.backward()
            gradients.append(
                torch.cat([p.grad.flatten().clone() for p in model.parameters() if p.grad is not None])
            )
            run.step(loss)
    num_parts = 3 if bound or is_cut else 2
    said, applied = seen[0]
    assert (said.num_parts, said.num_samples) == (num_parts, OWN)
    sizes = torch.tensor([2.0, 3.0, 3.0] if num_parts == 3 else [4.0, 4.0], dtype=torch.float64)
    shares, parts = sizes / OWN, torch.stack(gradients[:num_parts])
    assert said.squared_norm == pytest.approx(float((shares * parts.square().sum(1)).sum()))
    assert applied == pytest.approx(float((shares[:, None] * parts).sum(0).square().sum()), rel=1e-9)
    if not (bound or is_cut):
        assert seen[1][0].num_parts <= 1, "only now and then"


def test_adascale_multiplies_rates_by_the_gain() -> None:
    _, rates, had = train([OWN, OWN, 4 * OWN], rate_rule="adascale", max_local_batch=3)
    factors: dict[int, set[float]] = {OWN: set(), 4 * OWN: set()}
    start = epoch = 0
    for rate, batch in zip(rates, had, strict=True):
        plain = 0.5 / (1 + epoch * PER_EPOCH + start // OWN)
        factors[batch].add(round(rate / plain, 9))
        start = min(NUM_SAMPLES, start + batch)
        if start == NUM_SAMPLES:
            start, epoch = 0, epoch + 1
    assert factors[OWN] == {1.0}
    assert len(factors[4 * OWN]) > 1 and all(1.0 < factor < 4.0 for factor in factors[4 * OWN])


@given(st.integers(1, 512), st.integers(1, 512), st.floats(1e-3, 1e6))
def test_pollux_has_the_same_gain(own: int, batch: int, noise_scale: float) -> None:
    expected = float(worth(np.array([float(batch)]), own, noise_scale)[0])
    assert gain_ratio(batch / own, noise_scale / own, 1.0) == pytest.approx(expected)


def test_moments_are_right_on_average_where_parts_are_not_equal() -> None:
    generator = torch.Generator().manual_seed(0)
    num_dims, num_steps, own = 20, 4000, 4
    sizes = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
    noise = torch.randn(num_steps, 3, num_dims, generator=generator).double() * 2.0
    parts = 0.5 + noise / sizes.sqrt()[:, None]
    shares = sizes / sizes.sum()
    norms = (shares * parts.square().sum(2)).sum(1).tolist()
    applied = (shares[:, None] * parts).sum(1).square().sum(1).tolist()
    seen = [moments_of_parts(each, 3, mean, 8 / own) for each, mean in zip(norms, applied, strict=True)]
    assert sum(each.variance for each in seen) / num_steps == pytest.approx(num_dims * 4.0 / own, rel=0.03)
    assert sum(each.squared_norm for each in seen) / num_steps == pytest.approx(num_dims * 0.25, rel=0.1)


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
                loss.backward()
                run.step(loss)
    assert (run.samples, run.steps, run.updates) == (180, 9, 8 + 6)


def test_what_cannot_be_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match="choose from none, linear, square_root, adascale"):
        train([OWN], rate_rule="cubic")
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    with pytest.raises(ValueError, match="scale the learning rates twice"):
        train([OWN], rate_rule="linear", state={"mine": ScaledRate(optimizer, 8)})
