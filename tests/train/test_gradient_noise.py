"""The noise scale of gradients: right on average however a batch is cut, and free of effects on training."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from tests.train.test_gradients import Alone, Net, Pretended, compute, gradients_of, samples
from torch import nn

from swell.train.collective.gradients import Gradients, StepVote
from swell.train.data.sample_schedule import SampleSchedule, cut
from swell.train.scaling import NOISE_INTERVAL, PartNorms, shows_parts
from swell.train.state.gradient_noise import LEAST_MEASURED, MOST_SAMPLES, NUM_AVERAGED, GradientNoise

OWN, NUM_DIMS = 8, 400
#: Of a sample's gradient: the variance of each number is `NOISE`, and each has the mean `SIGNAL`.
NOISE, SIGNAL = 9.0, 0.5
TRUE_SCALE = NOISE / SIGNAL**2


class Source:
    """Steps of gradients whose noise is known."""

    def __init__(self, noise: float = NOISE, signal: float = SIGNAL, seed: int = 0) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._noise, self._signal = noise, signal
        self._halves = [nn.Parameter(torch.zeros(NUM_DIMS // 2, dtype=torch.float64)) for _ in range(2)]
        self.step = 0

    def show(self, seen: GradientNoise, sizes: Sequence[int], factor: float = 1.0) -> None:
        """Show one step whose parts have these numbers of samples."""
        draws = torch.randn(len(sizes), NUM_DIMS, generator=self._generator, dtype=torch.float64)
        counts = torch.tensor(sizes, dtype=torch.float64)
        parts = self._signal + self._noise**0.5 * draws / counts.sqrt()[:, None]
        shares = counts / counts.sum()
        whole = (shares[:, None] * parts).sum(0)
        for half, gradient in zip(self._halves, whole.split(NUM_DIMS // 2), strict=True):
            half.grad = gradient.clone()
        squared = float((shares * (factor * parts).square().sum(1)).sum())
        has_parts = len(sizes) > 1 and shows_parts(self.step, NOISE_INTERVAL)
        norms = PartNorms(squared, len(sizes), sum(sizes)) if has_parts else PartNorms(0.0, 0, sum(sizes))
        seen.observe(self.step, norms, self._halves, factor)
        self.step += 1


def measured(cuts: Sequence[Sequence[int]], num_steps: int, source: Source | None = None) -> GradientNoise:
    """Of so many steps, cut in these ways in turn. Those that show nothing are left out."""
    seen, source = GradientNoise(OWN), source or Source()
    for number in range(num_steps):
        if number % NOISE_INTERVAL < 2:
            source.step = number
            source.show(seen, cuts[number * len(cuts) // num_steps])
    return seen


@pytest.mark.slow
@settings(max_examples=fewer_if_quick(30), deadline=None)
@given(
    num_parts=st.integers(1, 8),
    batch=st.integers(16, 64),
    other=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    seed=st.integers(0, 1000),
)
def test_the_noise_scale_is_right_on_average_however_a_batch_is_cut(
    num_parts: int, batch: int, other: list[int], seed: int
) -> None:
    """Into equal parts, into others, or not at all, and when that changes while the run trains."""
    equal = [len(cut(batch, num_parts, part)) for part in range(num_parts)]
    seen = measured([equal, other], 80 * NOISE_INTERVAL, Source(seed=seed))
    assert seen.noise_scale == pytest.approx(TRUE_SCALE, rel=0.35)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(8,), (1, 2, 5)], ids=str)
def test_many_runs_have_no_bias(sizes: tuple[int, ...]) -> None:
    """Of a variance and a squared norm that were averaged over 200 runs the ratio is known well."""
    seen = GradientNoise(OWN)
    variance = squared_norm = 0.0
    for seed in range(200):
        seen = measured([sizes], 20 * NOISE_INTERVAL, Source(seed=seed))
        state = seen.state_dict()
        variance, squared_norm = (
            variance + state["variance"] / 200,
            squared_norm + state["squared_norm"] / 200,
        )
    assert variance == pytest.approx(NUM_DIMS * NOISE / OWN, rel=0.02)
    assert squared_norm == pytest.approx(NUM_DIMS * SIGNAL**2, rel=0.02)


@pytest.mark.parametrize("sizes", [(8,), (4, 4)])
def test_a_step_in_sixteen_is_measured_and_each_of_the_first(sizes: tuple[int, ...]) -> None:
    seen, source = GradientNoise(OWN), Source()
    for _ in range(10 * NOISE_INTERVAL):
        source.show(seen, sizes)
    assert seen.num_measured == NOISE_INTERVAL + 9


def test_too_few_measurements_tell_nothing() -> None:
    seen, source = GradientNoise(OWN), Source()
    for _ in range(LEAST_MEASURED - 1):
        source.show(seen, (4, 4))
        assert seen.noise_scale is None
    source.show(seen, (4, 4))
    assert seen.noise_scale is not None


def test_gradients_without_noise_and_without_anything_else() -> None:
    num_steps = LEAST_MEASURED * NOISE_INTERVAL
    assert measured([(4, 4)], num_steps, Source(noise=0.0)).noise_scale == pytest.approx(0.0, abs=1e-9)
    assert measured([(8,)], num_steps, Source(noise=0.0)).noise_scale == pytest.approx(0.0, abs=1e-9)
    seen = GradientNoise(OWN)
    seen.load_state_dict({"own_batch": OWN, "variance": 2.0, "squared_norm": -0.1, "num_seen": 50})
    assert seen.noise_scale == MOST_SAMPLES


@pytest.mark.parametrize("sizes", [(8,), (3, 5)])
def test_a_scalers_factor_and_gradients_that_are_no_numbers_change_nothing(sizes: tuple[int, ...]) -> None:
    plain, scaled, source, twin = GradientNoise(OWN), GradientNoise(OWN), Source(), Source()
    for number in range(40):
        source.show(plain, sizes)
        twin.show(scaled, sizes, factor=2.0 ** (number % 5))
    assert scaled.noise_scale == pytest.approx(plain.noise_scale)
    before = plain.num_measured
    odd = nn.Parameter(torch.zeros(2))
    odd.grad = torch.tensor([float("inf"), 1.0])
    plain.observe(48, PartNorms(float("inf"), 2, 8), [odd], 1.0)
    assert plain.num_measured == before


def test_the_state_goes_on_where_it_was_and_with_another_own_batch() -> None:
    whole, source = GradientNoise(OWN), Source()
    first, twin = GradientNoise(OWN), Source()
    for _ in range(64):
        source.show(whole, (4, 4))
        twin.show(first, (4, 4))
    second = GradientNoise(OWN)
    second.load_state_dict(first.state_dict())
    for _ in range(64):
        source.show(whole, (2, 6))
        twin.show(second, (2, 6))
    assert second.state_dict() == whole.state_dict()
    wider = GradientNoise(4 * OWN)
    wider.load_state_dict(whole.state_dict())
    assert wider.noise_scale == pytest.approx(whole.noise_scale)


def test_old_measurements_fade() -> None:
    seen = measured([(4, 4)], 40 * NOISE_INTERVAL, Source(noise=20 * NOISE))
    later = Source(seed=1)
    for number in range(40, 40 + 8 * NUM_AVERAGED):
        later.step = number * NOISE_INTERVAL
        later.show(seen, (4, 4))
    assert seen.noise_scale == pytest.approx(TRUE_SCALE, rel=0.4)


# ---------------------------------------------------------------- what is summed
def test_a_gradient_that_lies_in_the_buffer_of_the_last_step_is_measured_before_it_is_scaled() -> None:
    """A script that sets gradients to zero, and does not take them away, leaves them there."""
    net, course = Net(), SampleSchedule(12, 6, False, False)
    gradients, norms = Gradients(net, 1), []

    def note(flat: torch.Tensor) -> None:
        norms.append(float(flat[-2]))

    for step in (0, 1):
        for parameter in net.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()
        share, loss = compute(net, gradients, course.share(step, 0, 2), samples(12))
        own = sum(float(grad.square().sum()) for grad in gradients_of(net) if grad is not None)
        gradients.reduce(share, loss, StepVote(), Pretended(2, note))
        assert norms[-1] == pytest.approx(share.passes[0].factor * own)
        course.finish_step(share)


def test_one_worker_with_one_pass_sums_nothing() -> None:
    net, course = Net(), SampleSchedule(6, 6, True, False)
    gradients = Gradients(net, NOISE_INTERVAL)
    share, loss = compute(net, gradients, course.share(0, 0, 1), samples(6))
    before = gradients_of(net)
    tally = gradients.reduce(share, loss, StepVote(), Alone())
    assert tally.num_parts == 0
    for one, other in zip(before, gradients_of(net), strict=True):
        assert (one is None) == (other is None) and (one is None or other is None or torch.equal(one, other))
