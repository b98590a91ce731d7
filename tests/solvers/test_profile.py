"""Laws of the free-capacity profile."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.solvers.compiled import NUM_ROWS_WORTH_IT
from swell.solvers.profile import Fill, FreeProfile

#: (devices, work per second) of levels 1, 2, ...; strictly ascending
CURVES = (
    ([1, 2, 4], [1.0, 1.5, 2.0]),
    ([1, 2, 4], [5.0, 8.0, 12.0]),
    ([1, 2, 4, 8], [1.0, 2.0, 4.0, 8.0]),
    ([2, 6], [1.0, 4.0]),
    ([3], [2.0]),
)


def arrays(curve: tuple[list[int], list[float]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array(curve[0], dtype=np.int64), np.array(curve[1])


def work_of(fill: Fill, rates: np.ndarray) -> float:
    return float((np.diff(fill.starts_s) * np.where(fill.levels > 0, rates[fill.levels - 1], 0.0)).sum())


def free_at(profile: FreeProfile, at_s: float) -> int:
    return int(profile.free[np.searchsorted(profile.starts_s[: profile.count], at_s, side="right") - 1])


curves = st.sampled_from(CURVES).map(arrays)
takers = st.lists(st.tuples(curves, st.integers(1, 40), st.integers(1, 12), st.booleans()), max_size=7)


@given(tasks=takers, num_devices=st.integers(0, 9), hold_s=st.sampled_from([0.0, 1.5]))
def test_fills_do_their_work_in_time_and_never_take_what_is_not_there(
    tasks: list, num_devices: int, hold_s: float
) -> None:
    profile, used = FreeProfile(num_devices, 1), []
    for (devices, rates), need, end_s, is_late in tasks:
        if is_late:
            fill = profile.fill(need, end_s, devices, rates, hold_s)
        else:
            fill = profile.serve(need, devices, rates)
        if fill is None:
            continue
        used.append((fill, devices))
        assert work_of(fill, rates) >= need * (1 - 1e-8)
        assert not is_late or fill.end_s <= end_s
        assert (np.diff(fill.starts_s) > 0).all()
    breaks = np.unique(np.concatenate([[0.0, 50.0], *[fill.starts_s for fill, _ in used]]))
    for at_s in (breaks[:-1] + breaks[1:]) / 2:
        taken = 0
        for fill, devices in used:
            segment = np.searchsorted(fill.starts_s, at_s, side="right") - 1
            if segment < len(fill.levels) and fill.levels[segment]:
                taken += devices[fill.levels[segment] - 1]
        assert free_at(profile, at_s) == num_devices - taken >= 0


@given(tasks=takers, num_devices=st.integers(1, 9))
def test_a_fill_that_fails_takes_nothing_and_could_not_have_been_done(tasks: list, num_devices: int) -> None:
    profile = FreeProfile(num_devices, 1)
    for (devices, rates), need, end_s, _ in tasks:
        before = [free_at(profile, at_s) for at_s in np.arange(0.05, 13, 0.1)]
        can_do = 0.0
        starts_s = [*profile.starts_s[: profile.count], np.inf]
        for segment in range(profile.count):
            length_s = max(0.0, min(starts_s[segment + 1], end_s) - starts_s[segment])
            fitting = rates[devices <= profile.free[segment]]
            can_do += length_s * (fitting[-1] if len(fitting) else 0.0)
        fill = profile.fill(need, end_s, devices, rates)
        if fill is None:
            assert can_do < need
            assert before == [free_at(profile, at_s) for at_s in np.arange(0.05, 13, 0.1)]
        else:
            assert can_do >= need * (1 - 1e-8)


@given(curve=curves, need=st.integers(1, 60), end_s=st.integers(1, 12), num_devices=st.integers(1, 9))
def test_alone_the_lowest_level_that_suffices_is_taken_as_late_as_can_be(
    curve: tuple, need: int, end_s: int, num_devices: int
) -> None:
    devices, rates = curve
    fill = FreeProfile(num_devices, 1).fill(need, end_s, devices, rates)
    enough = [
        level for level in range(1, len(rates) + 1)
        if devices[level - 1] <= num_devices and rates[level - 1] * end_s >= need
    ]  # fmt: skip
    if not enough:
        assert fill is None
        return
    assert fill is not None
    assert fill.top == enough[0]
    assert fill.levels.tolist() == sorted(fill.levels.tolist())
    assert set(fill.levels.tolist()) <= {fill.top - 1, fill.top}
    assert work_of(fill, rates) == pytest.approx(need)


def test_a_step_within_the_hold_is_taken_now() -> None:
    devices, rates = arrays(CURVES[0])
    assert FreeProfile(4, 1).fill(13.0, 10.0, devices, rates).levels.tolist() == [1, 2]
    assert FreeProfile(4, 1).fill(13.0, 10.0, devices, rates, hold_s=5.0).levels.tolist() == [2]


def test_what_is_tried_on_a_copy_does_not_count() -> None:
    profile = FreeProfile(4, 1)
    assert profile.fill(10.0, 5.0, *arrays(([3], [2.0]))) is not None
    trial = profile.copy()
    fill = trial.serve(7.0, *arrays(CURVES[0]))
    assert fill.starts_s.tolist() == [0.0, 5.0, 6.0] and fill.levels.tolist() == [1, 3]
    assert [(free_at(profile, at_s), free_at(trial, at_s)) for at_s in (1, 5.5)] == [(1, 0), (4, 0)]


def test_work_that_never_fits_is_not_served() -> None:
    assert FreeProfile(2, 1).serve(1.0, *arrays(CURVES[4])) is None
    assert FreeProfile(2, 1).fill(1.0, 9.0, *arrays(CURVES[4])) is None
    assert FreeProfile(9, 1).fill(1.0, 0.0, *arrays(CURVES[4])) is None


@given(
    tasks=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 12)), min_size=1, max_size=6),
    num_devices=st.integers(1, 8),
)
def test_theorem_1_linear_tasks_fit_just_if_condition_1_holds(
    tasks: list[tuple[int, int]], num_devices: int
) -> None:
    devices = np.arange(1, num_devices + 1)
    profile, work, holds, fits = FreeProfile(num_devices, 1), 0, True, True
    for need, end_s in sorted(tasks, key=lambda task: task[1]):
        work += need
        holds &= work <= num_devices * end_s
        fits &= profile.fill(need, end_s, devices, devices.astype(float)) is not None
    assert fits == holds


def hand_example(order: str) -> bool:
    """Sizes 1, 2, 4 of four devices, both within 4 s."""
    tasks = {"A": (23.0, ([1, 2, 4], [5.0, 8.0, 12.0])), "B": (45.0, ([1, 2, 4], [6.0, 11.0, 16.0]))}
    profile = FreeProfile(4, 2)
    return all(profile.fill(tasks[name][0], 4.0, *arrays(tasks[name][1])) for name in order)


def test_filling_one_after_the_other_can_refuse_what_is_feasible() -> None:
    def feasible() -> bool:
        first, second = (0.0, 5.0, 8.0, 12.0), (0.0, 6.0, 11.0, 16.0)
        sizes = (0, 1, 2, 4)
        pairs = [(a, b) for a, b in product(range(4), repeat=2) if sizes[a] + sizes[b] <= 4]
        return any(
            sum(first[a] for a, _ in slots) >= 23 and sum(second[b] for _, b in slots) >= 45
            for slots in product(pairs, repeat=4)
        )

    assert feasible()
    assert not hand_example("AB")
    assert hand_example("BA")


@given(tasks=takers, num_devices=st.integers(1, 9))
def test_machine_code_and_plain_python_agree_to_the_bit(tasks: list, num_devices: int) -> None:
    plain, fast = FreeProfile(num_devices, 1), FreeProfile(num_devices, NUM_ROWS_WORTH_IT)
    for (devices, rates), need, end_s, is_late in tasks:
        fills = [
            profile.fill(need, end_s, devices, rates) if is_late else profile.serve(need, devices, rates)
            for profile in (plain, fast)
        ]
        assert (fills[0] is None) == (fills[1] is None)
        if fills[0] is not None:
            assert fills[0].starts_s.tolist() == fills[1].starts_s.tolist()
            assert fills[0].levels.tolist() == fills[1].levels.tolist()
