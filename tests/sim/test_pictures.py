"""What pictures show is what the table counts."""

from __future__ import annotations

import warnings
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from tests.examples import fewer_if_quick
from tests.sim.worlds import job, run

from swell.model.job import Phase
from swell.sim.job_timeline import MAX_TIMELINE_JOBS, _rows, _shown, draw_timeline
from swell.sim.metrics import metrics_of
from swell.sim.outcome import SimOutcome
from swell.sim.picture_style import plain_text
from swell.sim.pictures import _cumulative, answered_s


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["elasticflow", "fifo"])
@settings(max_examples=fewer_if_quick(25), deadline=None)
@given(
    seen=st.lists(
        st.tuples(st.integers(0, 500), st.integers(1, 400), st.one_of(st.none(), st.integers(1, 300))),
        min_size=1,
        max_size=6,
    )
)
def test_jobs_are_drawn_as_admitted_when_they_were_and_as_many_as_are_counted(
    policy: str, seen: list[tuple[int, int, int | None]]
) -> None:
    jobs = [
        job(
            f"j{number}",
            submit_s=float(at),
            steps=steps,
            deadline_s=None if left is None else float(at + left),
        )
        for number, (at, steps, left) in enumerate(sorted(seen, key=lambda one: one[0]))
    ]
    outcome = run(jobs, policy=policy)
    admitted_s, refused_s = answered_s(outcome.jobs)
    metrics = metrics_of(outcome)
    assert (len(admitted_s), len(refused_s)) == (metrics.admitted, metrics.rejected)
    with_deadline_s = [each.submit_s for each in outcome.jobs if each.deadline_s is not None]
    assert sorted(admitted_s + refused_s) == sorted(with_deadline_s)


def test_the_curve_of_one_job_is_seen() -> None:
    axes = Figure().subplots()
    _cumulative(axes, [1200.0], 1, "fifo", 0)
    assert np.array_equal(axes.lines[0].get_ydata(), [0.0, 1.0])


def test_a_policy_that_ended_no_job_is_still_in_the_legend() -> None:
    axes = Figure().subplots()
    _cumulative(axes, [], 10, "elasticflow", 0)
    assert axes.get_legend_handles_labels()[1] == ["elasticflow: no job"]


NAMES = ("$$", "$\\alpha_{", "_hidden", "<b>bold</b>", "a" * 90, "模型", "two\nlines\u2028three", "100% $5")


def test_any_name_is_drawn_as_it_is_written(tmp_path: Path) -> None:
    jobs = [job(name, submit_s=float(at), deadline_s=2000.0) for at, name in enumerate(NAMES)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        file = draw_timeline_plainly(run(jobs), "$_{", tmp_path / "timeline.png")
    assert file.stat().st_size > 0


def draw_timeline_plainly(outcome: SimOutcome, title: str, file: Path) -> Path:
    with plain_text():
        return draw_timeline(outcome, title, file)


def test_refused_jobs_do_not_cut_off_the_one_that_ran() -> None:
    ran = job("ran", steps=1000, deadline_s=1e4)
    refused = [job(f"no{at}", submit_s=float(at), steps=1000, deadline_s=at + 1.0) for at in range(1, 10)]
    jobs = run([ran, *refused]).jobs
    assert sum(one.phase is Phase.REJECTED for one in jobs) == 9
    last_s, cut = _shown(jobs, run_end_s=0.0)
    assert last_s >= (jobs[0].end_s or 0.0) > 100.0 and cut == ""


def test_refused_jobs_give_way_to_those_that_ran() -> None:
    (ran,) = run([job("ran")]).jobs
    refused = msgspec.structs.replace(ran, phase=Phase.REJECTED, sizes=((0.0, 0),))
    few, many = [ran, *[refused] * 9], [ran, *[refused] * MAX_TIMELINE_JOBS]
    assert _rows(few) == (few, 0)
    assert _rows(many) == ([ran], MAX_TIMELINE_JOBS)
