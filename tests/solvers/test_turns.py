"""Tasks that are served in a fixed order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.solvers.turns import OccupiedDevices, Tasks, ends_if_in_time, ends_in_order

DEVICES = np.array([[1, 2, 4], [1, 2, 4], [2, 4, 8]])
RATES = np.array([[1.0, 2.0, 4.0], [1.0, 1.5, 2.0], [1.0, 2.0, 3.0]])
NONE = OccupiedDevices(np.zeros(0, dtype=np.int64), np.zeros(0))


def tasks(
    work: list[float],
    *,
    held: tuple[int, int, int] = (0, 0, 0),
    pause_s: tuple[float, float, float] = (0.0, 0.0, 0.0),
    fixed_s: tuple[float, float, float] = (0.0, 0.0, 0.0),
    start_s: float = 0.0,
    change_s: float = 0.0,
) -> Tasks:
    return Tasks(
        devices=DEVICES,
        rates=RATES,
        num_levels=np.array([3, 3, 3]),
        work=np.array(work),
        held=np.array(held),
        pause_s=np.array(pause_s),
        fixed_s=np.array(fixed_s),
        start_s=np.full((3, 3), start_s),
        change_s=np.full((3, 3), change_s),
    )


def ends(some: Tasks, rows: list[int], num_devices: int, occupied: OccupiedDevices = NONE) -> list[float]:
    ends_s: list[float] = ends_in_order(some, np.array(rows, dtype=np.int64), num_devices, occupied).tolist()
    return ends_s


def test_the_first_takes_all_that_helps_and_the_next_what_is_left() -> None:
    # Row 0 has 4 of 6 for 10 s; row 1 does 15 on the other 2 in that time, and the last 10 on 4.
    assert ends(tasks([40.0, 25.0, 0.0]), [0, 1], 6) == [10.0, 15.0]
    assert ends(tasks([40.0, 25.0, 0.0]), [1, 0], 6) == [12.5, 16.25]


def test_starts_and_changes_take_time() -> None:
    # Row 0 starts for 1 s; row 1 too, does 15 by 11 s, then pauses for 2 s and does 10 on 4.
    assert ends(tasks([40.0, 25.0, 0.0], start_s=1.0, change_s=2.0), [0, 1], 6) == [11.0, 18.0]
    # Who runs on as it is pays nothing, and who is stopped starts again.
    assert ends(tasks([40.0, 25.0, 0.0], held=(3, 0, 0), start_s=1.0), [0], 4) == [10.0]
    assert ends(tasks([40.0, 25.0, 0.0], held=(3, 0, 0), start_s=1.0), [1, 0], 4) == [13.5, 24.5]
    assert ends(tasks([40.0, 0.0, 0.0], held=(3, 0, 0), pause_s=(3.0, 0.0, 0.0)), [0], 4) == [13.0]


def test_what_is_due_but_kept_by_another_is_waited_for() -> None:
    kept = tasks([40.0, 25.0, 0.0], held=(3, 0, 0), fixed_s=(5.0, 0.0, 0.0))
    # Row 1 is due 4 of 4, and waits for 5 s until row 0 can be stopped.
    assert ends(kept, [1, 0], 4) == [17.5, 22.5]
    # Devices that no task holds are waited for likewise: row 0 is due 4 of 6 and has none.
    occupied = OccupiedDevices(np.array([3]), np.array([2.0]))
    assert ends(tasks([40.0, 25.0, 0.0]), [0], 6, occupied) == [12.0]
    assert ends(tasks([40.0, 25.0, 0.0]), [0], 7, occupied) == [10.0]


def test_what_fits_nowhere_never_ends_and_delays_nobody() -> None:
    assert ends(tasks([4.0, 0.0, 5.0]), [2, 0], 1) == [np.inf, 4.0]
    assert ends(tasks([4.0, 0.0, 5.0]), [], 1) == []


times = st.sampled_from([0.0, 0.5, 2.0, 7.0])


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tasks, list[int], int]:
    """What is held fits."""
    num_devices = draw(st.integers(1, 12))
    held, free = [], num_devices
    for row in range(3):
        held.append(draw(st.sampled_from([0, *(one + 1 for one in range(3) if DEVICES[row, one] <= free)])))
        free -= DEVICES[row, held[row] - 1] if held[row] else 0
    some = tasks(
        draw(st.lists(st.integers(1, 50).map(float), min_size=3, max_size=3)),
        held=(held[0], held[1], held[2]),
        pause_s=(draw(times), draw(times), draw(times)),
        start_s=draw(times),
        change_s=draw(times),
    )
    return some, list(draw(st.permutations(range(3)))), num_devices


@given(case=cases())
def test_nobody_is_delayed_by_those_behind(case: tuple[Tasks, list[int], int]) -> None:
    some, rows, num_devices = case
    for num in range(1, 4):
        assert ends(some, rows, num_devices)[:num] == pytest.approx(ends(some, rows[:num], num_devices))


@given(case=cases(), fixed_s=st.tuples(times, times, times))
def test_each_has_done_its_work_on_the_devices_there_are(
    case: tuple[Tasks, list[int], int], fixed_s: tuple[float, float, float]
) -> None:
    some, rows, num_devices = case
    ends_s = ends(some._replace(fixed_s=np.array(fixed_s)), rows, num_devices)
    for place, row in enumerate(rows):
        fits = DEVICES[row] <= num_devices
        assert np.isfinite(ends_s[place]) == fits.any()
        if fits.any():
            assert ends_s[place] >= some.work[row] / RATES[row][fits].max() - 1e-9


@given(case=cases(), fixed_s=st.tuples(times, times, times), latest_s=st.integers(1, 60))
def test_an_end_that_is_too_late_is_found(
    case: tuple[Tasks, list[int], int], fixed_s: tuple[float, float, float], latest_s: int
) -> None:
    some, rows, num_devices = case
    some = some._replace(fixed_s=np.array(fixed_s))
    ends_s = ends(some, rows, num_devices)
    latest = np.array([np.inf, latest_s, np.inf])
    found = ends_if_in_time(some, np.array(rows), num_devices, NONE, latest)
    assert (found is None) == (ends_s[1] > latest_s + 1e-6)
