"""The noise scale of gradients: right on average however a batch is cut, and free of effects on training."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from torch import nn

from swell.train.state.gradient_noise import (
    NOISE_INTERVAL,
    GradientNoise,
)

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

    def show(self, seen: GradientNoise, num_samples: int) -> None:
        """Show one step of so many samples."""
        drawn = torch.randn(NUM_DIMS, generator=self._generator, dtype=torch.float64)
        whole = self._signal + (self._noise / num_samples) ** 0.5 * drawn
        for half, gradient in zip(self._halves, whole.split(NUM_DIMS // 2), strict=True):
            half.grad = gradient.clone()
        seen.observe(self.step, num_samples, self._halves)
        self.step += 1


def measured(batches: Sequence[int], num_steps: int, source: Source | None = None) -> GradientNoise:
    """Of so many steps, of these batches in turn. Those that show nothing are left out."""
    seen, source = GradientNoise(OWN), source or Source()
    for number in range(num_steps):
        if number % NOISE_INTERVAL < 2:
            source.step = number
            source.show(seen, batches[(number // NOISE_INTERVAL + number) % len(batches)])
    return seen


@pytest.mark.slow
@settings(max_examples=fewer_if_quick(30), deadline=None)
@given(batches=st.lists(st.integers(8, 64), min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_the_noise_scale_is_right_on_average_whatever_the_batches_are(batches: list[int], seed: int) -> None:
    seen = measured(batches, 80 * NOISE_INTERVAL, Source(seed=seed))
    assert seen.noise_scale == pytest.approx(TRUE_SCALE, rel=0.35)


@pytest.mark.slow
@pytest.mark.parametrize("batches", [(8,), (2, 11)], ids=str)
def test_many_runs_have_no_bias(batches: tuple[int, ...]) -> None:
    """Of a variance and a squared norm that were averaged over 200 runs the ratio is known well."""
    states = [measured(batches, 20 * NOISE_INTERVAL, Source(seed=seed)).state_dict() for seed in range(200)]
    variance, squared_norm = (
        sum(each[name] for each in states) / 200 for name in ("variance", "squared_norm")
    )
    assert variance == pytest.approx(NUM_DIMS * NOISE / OWN, rel=0.02)
    assert squared_norm == pytest.approx(NUM_DIMS * SIGNAL**2, rel=0.02)
