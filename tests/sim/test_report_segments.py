"""A timeline in fewer pieces shows no more devices than there were, and nothing that was not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.sim.outcome import Usage
from swell.sim.report_segments import Held, decimated, mean_devices, together

END_S = 1000.0


@st.composite
def pieces(draw: st.DrawFn) -> list[Held]:
    """Of several jobs, each a row of devices that it holds alone."""
    jobs = []
    for _ in range(draw(st.integers(1, 4))):
        times = sorted(draw(st.lists(st.floats(0.0, END_S), min_size=2, max_size=12, unique=True)))
        sizes = draw(st.lists(st.integers(1, 8), min_size=len(times) - 1, max_size=len(times) - 1))
        jobs.append(list(zip(times, times[1:], sizes, strict=False)))
    return jobs


def _sizes(held: Held, at_s: np.ndarray) -> np.ndarray:
    return sum(
        (size * ((from_s <= at_s) & (at_s < to_s)) for from_s, to_s, size in held), np.zeros(len(at_s))
    )


def _size(held: Held, at_s: float) -> int:
    return next((size for from_s, to_s, size in held if from_s <= at_s < to_s), 0)


@given(pieces(), st.integers(1, 40))
def test_a_piece_has_the_size_of_the_middle_of_its_grid(jobs: list[Held], most: int) -> None:
    found, grid_s = decimated(jobs, END_S, most)
    assert len(found) == len(jobs)
    if not grid_s:
        assert found == jobs
        return
    for before, after in zip(jobs, found, strict=True):
        for from_s, to_s, size in after:
            middles = np.arange(from_s + grid_s / 2, to_s, grid_s)
            assert np.unique(_sizes(before, middles)).tolist() == [size]


@given(pieces())
def test_jobs_together_hold_what_each_of_them_holds(jobs: list[Held]) -> None:
    summed = together(jobs)
    times = {at_s for held in jobs for piece in held for at_s in piece[:2]}
    for at_s in times:
        assert _size(summed, at_s) == sum(_size(held, at_s) for held in jobs)


@given(st.lists(st.tuples(st.floats(0.0, END_S), st.integers(0, 8)), min_size=1, max_size=8))
def test_means_keep_the_device_seconds(steps: list[tuple[float, int]]) -> None:
    times, sizes = zip(*sorted(steps), strict=True)
    usage = Usage(np.array(times), np.array(sizes, dtype=float), np.zeros(len(sizes)))
    means = mean_devices(usage, END_S, END_S, number=7)
    lengths = np.diff([*times, END_S])
    assert sum(mean or 0.0 for mean in means) * END_S / 7 == pytest.approx(float(lengths @ sizes), abs=1e-6)


def test_after_the_end_no_device_is_in_use_once_and_then_there_is_no_figure() -> None:
    usage = Usage(at_s=np.array([0.0, 350.0]), used_devices=np.array([8.0, 0.0]), efficiency=np.zeros(2))
    assert mean_devices(usage, END_S, 350.0, number=10) == [8.0, 8.0, 8.0, 4.0, 0.0, *[None] * 5]
