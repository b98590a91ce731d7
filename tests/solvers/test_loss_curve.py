"""Where on its curve a job is: known shapes, noise, units, drops of the learning rate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from swell.arrays import FloatArray
from swell.solvers.loss_curve import CurveBelief, believe, index_per_s

END_S = 200.0


def sampled(
    curve: Callable[[FloatArray], FloatArray],
    until_s: float,
    *,
    noise: float = 0.0,
    num: int = 30,
    seed: int = 0,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Times, values and weights of a curve over CPU seconds."""
    at_s = np.linspace(0.0, until_s, num)
    errors = noise * np.random.default_rng(seed).standard_normal(num)
    return at_s, curve(at_s) + errors, np.ones(num)


def reached_s(curve: Callable[[FloatArray], FloatArray]) -> float:
    """The truth."""
    at_s = np.linspace(0.0, END_S, 20_001)
    values = curve(at_s)
    return float(at_s[np.argmax(values <= values[0] - 0.95 * (values[0] - values[-1]))])


def expected_s(belief: CurveBelief) -> float:
    """Of the hypotheses in which something is learnt."""
    probability = belief.probability[:-1]
    return float(probability @ belief.reached_s[:-1] / probability.sum())


@pytest.mark.parametrize("scale_s", [10.0, 25.0, 60.0, 200.0])
@pytest.mark.parametrize("is_power", [False, True])
def test_half_way_the_target_is_known(scale_s: float, is_power: bool) -> None:
    def curve(at_s: FloatArray) -> FloatArray:
        return 1.0 / (1.0 + at_s / scale_s) if is_power else np.exp(-at_s / scale_s)

    belief = believe(*sampled(curve, END_S / 2), END_S)
    assert expected_s(belief) == pytest.approx(reached_s(curve), rel=0.15)


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
def test_what_is_done_is_done_in_spite_of_noise(noise: float) -> None:
    belief = believe(*sampled(lambda at_s: np.exp(-at_s / 10.0), 100.0, noise=noise), END_S)
    early = believe(*sampled(lambda at_s: np.exp(-at_s / 60.0), 40.0, noise=noise), END_S)
    assert belief.has_reached(100.0) > 0.95 and belief.progress > 0.95
    assert early.has_reached(40.0) < 0.05 and early.progress < 0.8
    assert index_per_s(early, 40.0) > 5.0 * index_per_s(belief, 100.0)


def test_the_index_is_the_best_time_to_spend() -> None:
    """One half reaches it after 1 s, the other after 100 s: to spend 1 s, 0.5 a second, is best."""
    belief = CurveBelief(np.array([0.5, 0.5, 0.0]), np.array([1.0, 100.0, np.inf]), 0.0)
    assert index_per_s(belief, 0.0) == pytest.approx(0.5)
    assert index_per_s(belief, 2.0) == pytest.approx(0.5 / (0.5 * 98.0 + 0.5 * 98.0))
    assert index_per_s(belief, 200.0) == 0.0
