"""Loss curves and their texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.sim.loss_curves import ExponentialApproach, JobLoss, MeasuredCurve, parse_loss

LEVELS = st.floats(-100.0, 100.0)
SCALES = st.floats(1.0, 1e4)


@given(LEVELS, LEVELS, SCALES, st.floats(0.0, 1e5), st.floats(0.0, 1e5))
def test_an_approach_goes_from_its_start_towards_its_limit(
    start: float, limit: float, scale_steps: float, one: float, other: float
) -> None:
    curve = ExponentialApproach(start, limit, scale_steps)
    assert curve.value(0.0) == pytest.approx(start, abs=1e-9)
    left = [abs(curve.value(steps) - limit) for steps in sorted((one, other))]
    assert left[1] <= left[0] + 1e-9 <= abs(start - limit) + 2e-9


def test_between_measured_points_is_a_line() -> None:
    curve = MeasuredCurve(((0.0, 2.0), (100.0, 1.0), (200.0, 0.8)))
    assert [curve.value(steps) for steps in (0.0, 50.0, 150.0, 1000.0)] == pytest.approx([2.0, 1.5, 0.9, 0.8])


def test_a_text_is_the_curve_that_it_says() -> None:
    assert parse_loss("exp:2.3:0.1:400") == JobLoss(ExponentialApproach(2.3, 0.1, 400.0))
    assert parse_loss("exp:2.3:0.1:1e+3+noise:0.02") == JobLoss(ExponentialApproach(2.3, 0.1, 1000.0), 0.02)
    assert parse_loss("points:0=2.3:100=1.1").curve == MeasuredCurve(((0.0, 2.3), (100.0, 1.1)))


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
        ("exp:2.3:0.1:400+wave:1", r"has a part 'wave:1'; write \+noise:S"),
        ("exp:2.3:0.1:400+noise:-1", "has a noise below 0: -1"),
    ],
)
def test_what_is_no_curve_is_one_clear_error(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_loss(text)
