"""What comes of a workload does not depend on the order in which its jobs are listed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from tests.sim.worlds import job, run

ARRIVALS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, 200), st.none() | st.integers(0, 30)), min_size=1, max_size=10
)


@pytest.mark.slow
@settings(max_examples=fewer_if_quick(40), deadline=None)
@given(arrivals=ARRIVALS, policy=st.sampled_from(["fifo", "elasticflow", "srtf"]))
def test_what_comes_out_does_not_depend_on_the_order_of_the_list(
    arrivals: list[tuple[int, int, int | None]], policy: str
) -> None:
    """Many at one moment, some given up then."""
    jobs = [
        job(
            f"j{number}",
            submit_s=10.0 * at,
            steps=steps,
            cancel_s=None if cancel is None else 10.0 * (at + cancel),
        )
        for number, (at, steps, cancel) in enumerate(arrivals)
    ]
    sorted_run = run(sorted(jobs, key=lambda one: one.submit_s), policy)
    whole = run(jobs, policy)
    assert {ended.id: ended for ended in sorted_run.jobs} == {ended.id: ended for ended in whole.jobs}
    assert [ended.id for ended in whole.jobs] == [one.id for one in jobs]
    assert sorted_run.num_events == whole.num_events


def test_a_job_that_is_there_twice_is_named() -> None:
    with pytest.raises(ValueError, match="job 'a' is in the workload twice"):
        run([job("a"), job("b"), job("a")])
