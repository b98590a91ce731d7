"""Device time adds up, whoever it is added up for and whatever time is asked for."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.views import job_view

from swell.model.job import JobClass
from swell.model.job_sums import HeldTime, UsageGroup, device_s, report_of


@st.composite
def held_times(draw: st.DrawFn) -> HeldTime:
    times = draw(st.lists(st.integers(0, 40_000), min_size=1, max_size=8, unique=True).map(sorted))
    sizes = tuple((float(at_s), draw(st.integers(0, 4))) for at_s in times[:-1])
    view: dict[str, Any] = {"sizes": sizes, "devices_per_worker": draw(st.sampled_from((1, 2)))}
    names = {name: draw(st.sampled_from(("", "a", "b"))) for name in ("user", "tenant", "kind")}
    job_class = draw(st.sampled_from(list(JobClass)))
    uses = draw(st.lists(st.floats(0.0, 1.0), max_size=len(times) - 1))
    held = HeldTime.of(job_view(finished_s=float(times[-1]), job_class=job_class, **view, **names))
    used, used_s = list[tuple[float, float]](), 0.0
    for use, (begin_s, end_s) in zip(uses, pairwise(times), strict=False):
        used_s += use * held.device_s(begin_s, end_s)
        used.append((float(end_s), used_s))
    return msgspec.structs.replace(held, used=tuple(used))


@given(held=held_times(), cuts=st.lists(st.integers(0, 50_000), max_size=5))
def test_parts_of_a_time_add_up_to_the_whole(held: HeldTime, cuts: list[int]) -> None:
    whole = held.device_s(0.0, 50_000.0)
    borders = [0, *sorted(cuts), 50_000]
    assert math.isclose(sum(held.device_s(*part) for part in pairwise(borders)), whole, abs_tol=1e-6)
    view = job_view(sizes=held.sizes, finished_s=held.finished_s, devices_per_worker=held.devices_per_worker)
    assert math.isclose(device_s(view), whole, abs_tol=1e-6), "the history says the same"
    used = [held.used_s(*part) for part in pairwise(borders)]
    if not held.used:
        assert used == [None] * len(used)
        return
    for part, used_s in zip(pairwise(borders), used, strict=True):
        assert used_s is not None and 0.0 <= used_s <= held.device_s(*part) + 1e-6
    assert math.isclose(sum(filter(None, used)), min(held.used[-1][1], whole), abs_tol=1e-6)


@pytest.mark.slow
@given(
    st.lists(held_times(), max_size=6),
    st.integers(0, 20_000),
    st.integers(0, 30_000),
    st.sampled_from(list(UsageGroup)),
)
def test_every_list_has_the_same_total(
    jobs: list[HeldTime], since_s: int, length_s: int, by: UsageGroup
) -> None:
    until_s, half_s = since_s + length_s, since_s + length_s / 2
    parts = [(since_s, half_s, "2030-01-07"), (half_s, until_s, "2030-01-14")]
    report = report_of(jobs, by, parts)
    held_s = sum(job.device_s(since_s, until_s) for job in jobs)
    assert math.isclose(report.device_hours, held_s / 3600.0, abs_tol=1e-9)
    assert (report.since_s, report.until_s) == (since_s, until_s)
    for name in ("device_hours", "used_hours", "measured_hours"):
        rows = [getattr(row, name) for row in report.rows]
        assert math.isclose(getattr(report, name) or 0.0, sum(filter(None, rows)), abs_tol=1e-9)


def test_an_open_job_counts_until_now() -> None:
    held = HeldTime.of(job_view(sizes=((100.0, 1), (200.0, 0), (300.0, 4))))
    assert held.device_s(0.0, 400.0) == 100.0 + 4 * 100.0
    assert held.device_s(0.0, 50.0) == 0.0
    assert held.device_s(350.0, 400.0) == 200.0
