"""Device time adds up, whoever it is added up for and whatever time is asked for."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.views import job_view

from swell.model.job import JobClass
from swell.model.job_sums import HeldTime, UsageEntry, UsageGroup, device_s, report_of


@st.composite
def held_times(draw: st.DrawFn) -> HeldTime:
    times = draw(st.lists(st.integers(0, 40_000), min_size=1, max_size=8, unique=True).map(sorted))
    sizes = tuple((float(at_s), draw(st.integers(0, 4))) for at_s in times[:-1])
    view: dict[str, Any] = {"sizes": sizes, "devices_per_worker": draw(st.sampled_from((1, 2)))}
    names = {name: draw(st.sampled_from(("", "a", "b"))) for name in ("user", "tenant", "kind")}
    job_class = draw(st.sampled_from(list(JobClass)))
    return HeldTime.of(job_view(finished_s=float(times[-1]), job_class=job_class, **view, **names))


@given(held=held_times(), cuts=st.lists(st.integers(0, 50_000), max_size=5))
def test_parts_of_a_time_add_up_to_the_whole(held: HeldTime, cuts: list[int]) -> None:
    whole = held.device_s(0.0, 50_000.0)
    borders = [0, *sorted(cuts), 50_000]
    assert math.isclose(sum(held.device_s(*part) for part in pairwise(borders)), whole, abs_tol=1e-6)
    view = job_view(sizes=held.sizes, finished_s=held.finished_s, devices_per_worker=held.devices_per_worker)
    assert math.isclose(device_s(view), whole, abs_tol=1e-6), "the history says the same"


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
    until_s = since_s + length_s
    entries = [
        UsageEntry(job.payer, f"j-{number}", job.name, job.device_s(since_s, until_s))
        for number, job in enumerate(jobs)
    ]
    report = report_of(entries, by, since_s, until_s)
    assert math.isclose(report.device_hours, sum(entry.device_s for entry in entries) / 3600.0, abs_tol=1e-9)
    assert math.isclose(report.device_hours, sum(row.device_hours for row in report.rows), abs_tol=1e-9)


def test_an_open_job_counts_until_now() -> None:
    held = HeldTime.of(job_view(sizes=((100.0, 1), (200.0, 0), (300.0, 4))))
    assert held.device_s(0.0, 400.0) == 100.0 + 4 * 100.0
    assert held.device_s(0.0, 50.0) == 0.0
    assert held.device_s(350.0, 400.0) == 200.0
