"""What Chronus promises: guaranteed deadlines at the sizes asked for, best-effort jobs in the gaps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policies.fluid import follow
from tests.policies.snapshots import NOW_S, best_effort, promised, snapshot, strict

from swell_papers.policies.chronus import LEASE_S, Chronus

ONE = {1: 1.0}
LINEAR = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}
BEFORE_S = -(NOW_S % LEASE_S + 1.0)


def test_slo_jobs_come_first_by_deadline_and_best_effort_ones_fill_the_gaps_the_shortest_first() -> None:
    jobs = [
        best_effort("long", ONE, 900, submitted=BEFORE_S),
        best_effort("short", ONE, 90, submitted=BEFORE_S),
        promised("later", LINEAR, 400, 2000, requested=2, submitted=BEFORE_S),
        promised("soon", LINEAR, 400, 1000, requested=4, submitted=BEFORE_S),
    ]
    answer = Chronus().decide(snapshot(jobs, 7))
    assert answer.workers.tolist() == [0, 1, 2, 4]
    assert answer.floor.tolist() == [0, 0, 2, 4]
    assert Chronus().decide(snapshot(jobs, 5)).workers.tolist() == [0, 1, 0, 4]


@pytest.mark.slow
@given(
    spans=st.lists(
        st.tuples(
            st.integers(1, 2000), st.integers(1, 6000), st.integers(0, 3000), st.sampled_from([1, 2, 4])
        ),
        max_size=6,
    )
)
def test_what_is_promised_is_kept(spans: list[tuple[int, int, int, int]]) -> None:
    """Best-effort jobs are always there to be in the way, for a lease at most."""
    jobs = [
        strict(f"s{i}", LINEAR, float(work * size), float(come + end), submitted=float(come), requested=size)
        for i, (work, end, come, size) in enumerate(spans)
    ]
    filler = [best_effort(f"b{i}", LINEAR, 4e3, requested=2, submitted=float(i)) for i in range(3)]
    run = follow(Chronus(), [*jobs, *filler], 4, margin_share=0.0, min_hold_s=0.0)
    for job in jobs:
        assert job.id in run.refused or run.finished[job.id] <= job.deadline + 1e-6
