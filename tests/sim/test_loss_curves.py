"""Loss curves, their texts, and what is drawn where a trace has none."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.sim.loss_curves import (
    ExponentialApproach,
    JobLoss,
    LearningRateDrop,
    LossCurve,
    MeasuredCurve,
    PowerApproach,
    learnt_steps,
)
from swell.sim.loss_text import parse_loss
from swell.sim.traces.loss_draws import drawn_loss

LEVELS = st.floats(-100.0, 100.0)
SCALES = st.floats(1.0, 1e4)
APPROACHES: st.SearchStrategy[LossCurve] = st.one_of(
    st.builds(ExponentialApproach, LEVELS, LEVELS, SCALES),
    st.builds(PowerApproach, LEVELS, LEVELS, SCALES, st.floats(0.2, 3.0)),
)
CURVES = st.one_of(APPROACHES, st.builds(LearningRateDrop, APPROACHES, SCALES, LEVELS, SCALES))


@given(APPROACHES, st.floats(0.0, 1e5), st.floats(0.0, 1e5))
def test_an_approach_goes_from_its_start_towards_its_limit(
    curve: LossCurve, one: float, other: float
) -> None:
    assert isinstance(curve, ExponentialApproach | PowerApproach)
    assert curve.value(0.0) == pytest.approx(curve.start, abs=1e-9)
    left = [abs(curve.value(steps) - curve.limit) for steps in sorted((one, other))]
    assert left[1] <= left[0] + 1e-9 <= abs(curve.start - curve.limit) + 2e-9


@given(CURVES, st.integers(1, 100_000), st.floats(0.05, 0.99))
def test_what_is_to_be_learnt_is_learnt_there_and_not_before(
    curve: LossCurve, num_steps: int, share: float
) -> None:
    change = curve.value(float(num_steps)) - curve.value(0.0)
    steps = learnt_steps(curve, num_steps, share)
    if steps is None:
        assert change == 0.0
        return
    assert 0.0 < steps <= num_steps

    def done(at: float) -> float:
        return (curve.value(at) - curve.value(0.0)) / change

    assert done(steps) >= share
    if abs(change) > 1e-3:
        assert all(done(steps * part / 20) < share + 1e-6 for part in range(20))


def test_after_a_drop_of_the_learning_rate_a_job_learns_again() -> None:
    curve = LearningRateDrop(ExponentialApproach(2.0, 1.0, 10.0), 100.0, 0.5, 10.0)
    flat = curve.value(90.0) - curve.value(100.0)
    assert curve.value(99.999999) == pytest.approx(curve.value(100.0))
    assert curve.value(100.0) - curve.value(110.0) > 100 * flat


def test_between_measured_points_is_a_line() -> None:
    curve = MeasuredCurve(((0.0, 2.0), (100.0, 1.0), (200.0, 0.8)))
    assert [curve.value(steps) for steps in (0.0, 50.0, 150.0, 1000.0)] == pytest.approx([2.0, 1.5, 0.9, 0.8])


def test_noise_is_of_the_step_and_of_the_job() -> None:
    curve = ExponentialApproach(2.0, 1.0, 100.0)
    one, same, other = JobLoss(curve, 0.1, (1, 2)), JobLoss(curve, 0.1, (1, 2)), JobLoss(curve, 0.1, (1, 3))
    told = [one.reported(steps) for steps in range(500)]
    assert told == [same.reported(steps) for steps in range(500)]
    assert told != [other.reported(steps) for steps in range(500)]
    errors = [value - curve.value(float(steps)) for steps, value in enumerate(told)]
    assert math.sqrt(sum(error * error for error in errors) / len(errors)) == pytest.approx(0.1, rel=0.15)
    assert JobLoss(curve).reported(7) == curve.value(7.0)


def test_a_text_is_the_curve_that_it_says() -> None:
    assert parse_loss("exp:2.3:0.1:400") == JobLoss(ExponentialApproach(2.3, 0.1, 400.0))
    assert parse_loss("power:2.3:0.1:1e+3:0.5+noise:0.02") == JobLoss(
        PowerApproach(2.3, 0.1, 1000.0, 0.5), 0.02
    )
    assert parse_loss("points:0=2.3:100=1.1").curve == MeasuredCurve(((0.0, 2.3), (100.0, 1.1)))
    drop = LearningRateDrop(ExponentialApproach(2.3, 0.5, 100.0), 1000.0, 0.1, 50.0)
    assert parse_loss("exp:2.3:0.5:100+drop:1000:0.1:50").curve == drop


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("linear:1:2", "is no loss curve: 'linear:1:2'; write exp:START:LIMIT:STEPS"),
        ("exp:2.3:0.1", "has 2 numbers where 3 belong"),
        ("exp:2.3:low:400", "has 'low' where a number belongs"),
        ("exp:2.3:nan:400", "has 'nan' where a number belongs"),
        ("exp:2.3:0.1:0", "has 0 where a number above 0 belongs"),
        ("points:100=1:0=2", "has points that do not ascend in steps"),
        ("points:100", "has '' where a number belongs"),
        ("exp:2.3:0.1:400+wave:1", r"has a part 'wave:1'; write \+drop:AT:LIMIT:STEPS or \+noise:S"),
        ("exp:2.3:0.1:400+noise:-1", "has a noise below 0: -1"),
    ],
)
def test_what_is_no_curve_is_one_clear_error(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_loss(text)


@given(st.integers(0, 1000), st.integers(0, 10_000), st.integers(1, 10_000_000))
def test_what_is_drawn_is_a_curve_that_falls_in_time(seed: int, index: int, num_steps: int) -> None:
    text = drawn_loss(seed, index, num_steps)
    assert text == drawn_loss(seed, index, num_steps)
    loss = parse_loss(text)
    first, last = loss.curve.value(0.0), loss.curve.value(float(num_steps))
    assert 0.0 < last < first
    assert 0.0 < loss.noise < first - loss.curve.limit  # type: ignore[attr-defined]
