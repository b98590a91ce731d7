"""Laws of tallies and of curves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from tests.store.views import with_all

from swell.store.curves import (
    MOST_POINTS,
    NEWEST_POINTS,
    OLDER_POINTS,
    CurvePoint,
    absorb,
    compact,
)
from swell.tally import Tally, tally_of

VALUES = st.floats(allow_nan=True, allow_infinity=True)
#: Values of steps that do not go back.
RUNS = st.lists(st.tuples(st.integers(0, 3), VALUES), min_size=1, max_size=12).map(
    lambda pairs: [
        (sum(more for more, _ in pairs[: place + 1]), pairs[place][1]) for place in range(len(pairs))
    ]
)


def told(values: Sequence[tuple[int, float]]) -> Tally:
    found = tally_of(values, num_workers=1)
    assert found is not None
    return found


def is_close(one: Tally, other: Tally) -> bool:
    """But for the rounding of means."""
    bare = [msgspec.structs.replace(tally, mean=None) for tally in (one, other)]
    if bare[0] != bare[1] or (one.mean is None) != (other.mean is None):
        return False
    if one.mean is None or other.mean is None:
        return True
    assert one.min is not None and one.max is not None
    return math.isclose(one.mean, other.mean, rel_tol=1e-9, abs_tol=1e-9 * max(abs(one.min), abs(one.max)))


@given(RUNS)
def test_a_tally_is_what_its_values_are(values: list[tuple[int, float]]) -> None:
    tally, finite = told(values), [value for _, value in values if math.isfinite(value)]
    assert (tally.first_step, tally.last_step) == (values[0][0], values[-1][0])
    assert (tally.count, tally.num_odd) == (len(finite), len(values) - len(finite))
    if not finite:
        assert (tally.mean, tally.min, tally.max, tally.last) == (None, None, None, None)
        return
    assert (tally.min, tally.max, tally.last) == (min(finite), max(finite), finite[-1])
    assert tally.mean is not None and min(finite) <= tally.mean <= max(finite)
    scale = max(map(abs, finite))
    mean = scale * (math.fsum(value / scale for value in finite) / len(finite)) if scale else 0.0
    assert math.isclose(tally.mean, mean, rel_tol=1e-9, abs_tol=1e-9 * scale)


@given(RUNS, st.data())
def test_parts_in_their_order_are_the_whole_however_they_are_put_together(
    values: list[tuple[int, float]], data: st.DataObject
) -> None:
    cuts = data.draw(st.tuples(st.integers(0, len(values)), st.integers(0, len(values))).map(sorted))
    parts = [part for part in (values[: cuts[0]], values[cuts[0] : cuts[1]], values[cuts[1] :]) if part]
    tallies = [told(part) for part in parts]
    left = tallies[0]
    for tally in tallies[1:]:
        left = left.plus(tally)
    right = tallies[-1]
    for tally in tallies[-2::-1]:
        right = tally.plus(right)
    assert is_close(left, told(values)) and is_close(right, left)


@given(st.lists(st.tuples(st.integers(0, 9), VALUES), min_size=1, max_size=12))
def test_steps_that_are_repeated_take_the_place_of_what_they_repeat(values: list[tuple[int, float]]) -> None:
    tally = told(values)
    assert tally.first_step <= tally.last_step == values[-1][0]
    assert 1 <= tally.num_values <= len(values)


# ---------------------------------------------------------------- curves
def point(
    first_step: int, last_step: int, value: float = 1.0, generation: int = 1, mark: int | None = None
) -> CurvePoint:
    """One value a step."""
    tally = told([(step, value) for step in range(first_step, last_step + 1)])
    return CurvePoint(float(last_step), generation, last_step if mark is None else mark, tally)


def count(points: Sequence[CurvePoint]) -> int:
    return sum(one.tally.count for one in points)


def test_a_step_that_a_later_gang_reports_again_is_replaced_unless_no_steps_are_counted() -> None:
    same_gang = with_all([], [point(5, 5, mark=1), point(5, 5, 2.0, mark=2)])
    assert count(same_gang) == 2, "the script reported it twice"
    next_gang = with_all([], [point(5, 5, mark=1), point(5, 5, 2.0, generation=2, mark=2)])
    assert [one.tally.mean for one in next_gang] == [2.0]
    without_steps = with_all([], [point(0, 0, mark=1), point(0, 0, 2.0, generation=2, mark=2)])
    assert count(without_steps) == 2


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 20)), max_size=40))
def test_a_curve_is_in_order_and_has_each_step_once(moves: list[tuple[int, int]]) -> None:
    """A gang reports some steps, then the next one goes on from some steps before."""
    curve: list[CurvePoint] = []
    step = 0
    for generation, (num_steps, back) in enumerate(moves, 1):
        step = max(0, step - back)
        absorb(curve, point(step + 1, step + num_steps, generation=generation, mark=generation))
        step += num_steps
    assert count(curve) == step
    assert all(a.last_step < b.first_step for a, b in itertools.pairwise(curve))


@given(st.lists(st.integers(1, 400), max_size=60), st.booleans())
@settings(max_examples=fewer_if_quick(30))
def test_a_compacted_curve_is_bounded_and_keeps_counts_sums_and_the_newest(
    nums: list[int], has_steps: bool
) -> None:
    curve: list[CurvePoint] = []
    step, total = 0, 0.0
    for number in nums:
        for _ in range(number):
            step += 1
            at = step if has_steps else 0
            absorb(curve, CurvePoint(float(step), 1, step, told([(at, float(step % 7))])))
            total += step % 7
        newest = curve[-NEWEST_POINTS:]
        curve = compact(curve)
        assert len(curve) <= MOST_POINTS and curve[-NEWEST_POINTS:] == newest
        assert count(curve) == step
        sums = [one.tally.count * (one.tally.mean or 0.0) for one in curve]
        assert math.isclose(math.fsum(sums), total, rel_tol=1e-9)


def test_an_old_part_is_as_fine_as_any_other() -> None:
    """Compacted again and again, as over days."""
    curve: list[CurvePoint] = []
    for step in range(1, 20_001):
        absorb(curve, point(step, step))
        if len(curve) > MOST_POINTS:
            curve = compact(curve)
    widths = [one.tally.count for one in curve[:-MOST_POINTS]] or [one.tally.count for one in curve]
    assert max(widths) <= 3 * 20_000 / OLDER_POINTS
    assert curve[0].first_step == 1 and count(curve) == 20_000
