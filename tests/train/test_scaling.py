"""Laws of learning rates for another batch."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.train.fake_agent import fork_script
from torch import nn, optim

from swell.train.scaling import (
    GradientMoments,
    MovingMoments,
    ScaledRate,
    gain_ratio,
    linear,
    moments,
    square_root,
)

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "change-the-batch.md"
SCALES = st.floats(1 / 64, 64)
NORMS = st.floats(0, 1e12)


# ---------------------------------------------------------------- the rules
@given(SCALES, NORMS, NORMS)
def test_a_gain_is_between_one_and_the_scale(scale: float, variance: float, squared_norm: float) -> None:
    gain = gain_ratio(scale, variance, squared_norm)
    assert min(1.0, scale) * (1 - 1e-12) <= gain <= max(1.0, scale) * (1 + 1e-12)
    assert gain_ratio(1.0, variance, squared_norm) == pytest.approx(1.0)


@given(SCALES, SCALES, NORMS, NORMS)
def test_a_larger_batch_never_gains_less(
    one: float, other: float, variance: float, squared_norm: float
) -> None:
    small, large = sorted((one, other))
    assert gain_ratio(large, variance, squared_norm) >= gain_ratio(small, variance, squared_norm) * (
        1 - 1e-12
    )


@given(st.floats(1, 64), NORMS, NORMS, NORMS)
def test_noise_makes_a_larger_batch_worth_more_and_signal_less(
    scale: float, one: float, other: float, fixed: float
) -> None:
    less, more = sorted((one, other))
    assert gain_ratio(scale, more, fixed) >= gain_ratio(scale, less, fixed) * (1 - 1e-9) or more == 0
    if less > 0:  # a gradient of nothing at all gains nothing
        assert gain_ratio(scale, fixed, more) <= gain_ratio(scale, fixed, less) * (1 + 1e-9)


@given(SCALES, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(1e-100, 1e100))
def test_the_unit_of_the_loss_does_not_matter(
    scale: float, variance: float, squared_norm: float, unit: float
) -> None:
    gain = gain_ratio(scale, variance, squared_norm)
    assert gain_ratio(scale, unit * variance, unit * squared_norm) == pytest.approx(gain)


@given(SCALES)
def test_rules_agree_where_nothing_is_scaled_and_lie_in_order_elsewhere(scale: float) -> None:
    assert linear(1.0) == square_root(1.0) == 1.0
    between = sorted((1.0, linear(scale)))
    assert between[0] <= square_root(scale) <= between[1]
    assert gain_ratio(scale, 1.0, 0.0) == pytest.approx(linear(scale))  # all noise
    assert gain_ratio(scale, 0.0, 1.0) == 1.0  # all signal


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_what_is_no_scale_is_refused(scale: float) -> None:
    for rule in (linear, square_root, lambda scale: gain_ratio(scale, 1.0, 1.0)):
        with pytest.raises(ValueError, match="above 0 and finite"):
            rule(scale)


# ---------------------------------------------------------------- estimates
VECTORS = st.lists(st.lists(st.floats(-10, 10), min_size=3, max_size=3), min_size=2, max_size=6)


@given(VECTORS, st.floats(0.5, 16))
def test_moments_split_the_squared_norm(vectors: list[list[float]], scale: float) -> None:
    """sigma^2 / S + mu^2 is what the applied gradient has; equal parts have no variance."""
    parts = torch.tensor(vectors, dtype=torch.float64)
    applied = parts.mean(0).square().sum().item()
    seen = moments(parts.square().sum(1).tolist(), applied, scale)
    assert seen.variance / scale + seen.squared_norm == pytest.approx(applied, abs=1e-9)
    assert seen.variance == pytest.approx(scale * parts.var(0).sum().item() / len(parts), abs=1e-9)
    same = moments([applied] * len(parts), applied, scale)
    assert same.variance == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("scale", "num_parts"), [(8.0, 8), (8.0, 2), (2.0, 8)])
def test_moments_are_right_on_average_however_the_batch_is_cut(scale: float, num_parts: int) -> None:
    generator = torch.Generator().manual_seed(0)
    true, sigma, num_dims, num_steps = torch.full((20,), 0.5), 2.0, 20, 4000
    spread = sigma * math.sqrt(num_parts / scale)  # of a part, which is S / n base batches
    parts = true + spread * torch.randn(num_steps, num_parts, num_dims, generator=generator)
    norms, applied = parts.square().sum(2).tolist(), parts.mean(1).square().sum(1).tolist()
    seen = [moments(each, mean, scale) for each, mean in zip(norms, applied, strict=True)]
    mean_variance = sum(each.variance for each in seen) / num_steps
    mean_norm = sum(each.squared_norm for each in seen) / num_steps
    assert mean_variance == pytest.approx(num_dims * sigma**2, rel=0.03)
    assert mean_norm == pytest.approx(true.square().sum().item(), rel=0.15)


def test_one_part_shows_nothing() -> None:
    with pytest.raises(ValueError, match="two at least"):
        moments([1.0], 1.0, 4.0)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50), st.floats(1, 64))
def test_averages_begin_as_the_mean(values: list[float], scale: float) -> None:
    noise = MovingMoments()
    for value in values[: int(1000 / scale)]:
        noise.add(GradientMoments(value, value / 2), scale)
    seen = values[: int(1000 / scale)]
    assert noise.variance == pytest.approx(sum(seen) / len(seen))
    for _ in range(2000):
        noise.add(GradientMoments(7.0, -3.0), scale)
    later = abs(noise.variance - 7.0) / (100 + 7.0)
    assert later <= len(seen) / (len(seen) + 2000) + 1e-9
    assert noise.gain(scale) >= 1.0


# ---------------------------------------------------------------- on an optimizer
def make(rule: str = "linear", rate: float = 0.1) -> tuple[nn.Parameter, optim.SGD, ScaledRate]:
    weight = nn.Parameter(torch.ones(2, dtype=torch.float64))
    optimizer = optim.SGD([weight], lr=rate)
    return weight, optimizer, ScaledRate(optimizer, base_batch=8, rule=rule)


def step(weight: nn.Parameter, optimizer: optim.Optimizer) -> float:
    """How far a gradient of ones goes."""
    before = weight.detach().clone()
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    return float((before - weight.detach())[0])


@pytest.mark.parametrize(("rule", "factor"), [("linear", 4.0), ("square_root", 2.0), ("adascale", 1.0)])
def test_steps_are_scaled_and_rates_stay_those_of_the_base_batch(rule: str, factor: float) -> None:
    weight, optimizer, rate = make(rule)
    assert step(weight, optimizer) == pytest.approx(0.1)
    rate.batch = 32
    assert step(weight, optimizer) == pytest.approx(0.1 * factor)
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert rate.effective_steps == pytest.approx(1.0 + (1.0 if rule == "adascale" else 4.0))
    rate.detach()
    assert step(weight, optimizer) == pytest.approx(0.1)


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad])
def test_any_optimizer_does_as_with_a_rate_that_was_set_by_hand(kind: Callable[..., optim.Optimizer]) -> None:
    def train(by_hand: bool) -> torch.Tensor:
        weight = nn.Parameter(torch.ones(3, dtype=torch.float64))
        other = nn.Parameter(torch.ones(3, dtype=torch.float64))
        optimizer = kind(
            [{"params": [weight]}, {"params": [other], "lr": 0.003}], lr=0.03 if by_hand else 0.01
        )
        if by_hand:
            optimizer.param_groups[1]["lr"] *= 3
        else:
            ScaledRate(optimizer, base_batch=4).batch = 12
        for number in range(5):
            for parameter in (weight, other):
                parameter.grad = torch.full_like(parameter, 1.0 + number)
            optimizer.step()
        return torch.cat([weight.detach(), other.detach()])

    assert torch.allclose(train(by_hand=True), train(by_hand=False), rtol=1e-12)


def test_schedulers_that_multiply_what_they_find_are_not_led_astray() -> None:
    _, optimizer, rate = make()
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    rate.batch = 80
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.5**3)


def test_a_step_that_raises_does_not_scale_the_next_one_twice() -> None:
    weight, optimizer, rate = make()
    rate.batch = 32

    def fail() -> float:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        optimizer.step(fail)
    assert step(weight, optimizer) == pytest.approx(0.4)


def test_a_joiner_goes_on_where_the_others_are() -> None:
    seen = [([3.0, 5.0, 2.0], 1.0), ([4.0, 4.0, 1.0], 0.5), ([9.0, 1.0, 2.0], 2.0)]
    weight, optimizer, rate = make("adascale")
    rate.batch = 32
    for norms, mean in seen:
        rate.observe(norms, mean)
        step(weight, optimizer)
    joined = make("adascale")
    joined[2].load_state_dict(rate.state_dict())
    assert joined[2].factor == rate.factor > 1.0
    assert joined[2].effective_steps == rate.effective_steps
    for norms, mean in seen:
        for each in (rate, joined[2]):
            each.observe(norms, mean)
    assert step(*joined[:2]) == pytest.approx(step(weight, optimizer))


def test_a_state_of_another_rule_or_batch_is_refused() -> None:
    state = make("linear")[2].state_dict()
    with pytest.raises(
        ValueError, match="the state scales linear from a batch of 8, this one square_root from 8"
    ):
        make("square_root")[2].load_state_dict(state)
    optimizer = make()[1]
    for batch, rule in ((0, "linear"), (8, "cubic")):
        with pytest.raises(ValueError, match=r"one sample at least|choose from linear, square_root, ada"):
            ScaledRate(optimizer, batch, rule)


def test_gradients_that_are_no_numbers_show_nothing() -> None:
    rate = make("adascale")[2]
    rate.batch = 32
    rate.observe([3.0, 5.0], 1.0)
    factor = rate.factor
    rate.observe([math.nan, 5.0], math.nan)
    rate.observe([math.inf, 5.0], math.inf)
    assert rate.factor == factor


def train_noisy(scale: int, effective_steps: float) -> tuple[float, int]:
    """SGD on |w|^2 / 2 with noisy gradients: mean loss over the last tenth, and the steps it took."""
    generator = torch.Generator().manual_seed(7)
    weight = nn.Parameter(torch.full((100,), 0.3, dtype=torch.float64))
    optimizer = optim.SGD([weight], lr=0.02)
    rate = ScaledRate(optimizer, base_batch=1, rule="adascale")
    rate.batch = scale
    losses = []
    for num_steps in itertools.count(1):
        noise = torch.randn(max(2, scale), 100, generator=generator, dtype=torch.float64)
        parts = weight.detach() + noise * math.sqrt(len(noise) / scale)
        weight.grad = parts.mean(0)
        rate.observe(parts.square().sum(1).tolist(), weight.grad.square().sum().item())
        optimizer.step()
        losses.append(weight.detach().square().sum().item() / 2)
        if rate.effective_steps >= effective_steps:
            tail = losses[-max(1, num_steps // 10) :]
            return sum(tail) / len(tail), num_steps
    raise AssertionError


def test_adascale_learns_the_same_in_fewer_steps() -> None:
    """What the paper promises: at equal effective steps the loss is that of the base batch."""
    small, num_small = train_noisy(1, 600)
    large, num_large = train_noisy(8, 600)
    assert num_small == 600
    assert num_large < num_small / 4
    assert large == pytest.approx(small, rel=0.25)


# ---------------------------------------------------------------- as the page shows it
def test_the_programs_of_the_page_run(tmp_path: Path) -> None:
    printed = []
    for number, block in enumerate(PAGE.read_text().split("```python\n")[1:]):
        script = tmp_path / f"{number}.py"
        script.write_text(block.split("```")[0])
        process = fork_script(script, (), tmp_path / f"{number}.log", {})
        process.join(60)
        printed.append((tmp_path / f"{number}.log").read_text())
        assert process.exitcode == 0, printed[-1]
    assert printed[0] == "80 steps at 2 times 0.01\n"
    num_steps, effective_steps = map(int, re.findall(r"\d+", printed[1])[:2])
    assert effective_steps in (400, 401, 402) and num_steps < 300
