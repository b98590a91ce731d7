"""What pictures show is what the table counts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.worlds import job, run

from swell.sim.metrics import metrics_of
from swell.sim.pictures import answered_s


@pytest.mark.parametrize("policy", ["elasticflow", "fifo"])
@settings(max_examples=25, deadline=None)
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
