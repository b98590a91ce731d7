"""A long run holds the jobs that are open, and of each that has ended its outcome."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from tests.sim.worlds import head, job, run

from swell.model.job import Phase
from swell.sim.agenda import Agenda
from swell.sim.change_cost import change_cost
from swell.sim.job import SimJob
from swell.sim.jobs import RepeatedJobs
from swell.sim.simulate import Scenario, cluster, simulate
from swell.sim.true_speed import TrueSpeed

NUM_JOBS = 200


def scenario(jobs: Collection[SimJob]) -> Scenario:
    return Scenario(nodes=cluster(1, 8, "gpu"), jobs=jobs, cost=change_cost("none", 8))


@pytest.mark.slow
def test_jobs_enter_as_time_comes_to_them_and_are_forgotten_with_their_end() -> None:
    """A job every 1,000 s takes 100 s: there are never more than the one that runs and the one to come."""
    alive: weakref.WeakSet[TrueSpeed] = weakref.WeakSet()
    most_alive = num_ended = 0

    def jobs() -> Iterator[SimJob]:
        nonlocal most_alive
        for number in range(NUM_JOBS):
            assert num_ended >= number - 2, f"job {number} was asked for when {num_ended} had ended"
            made = job(f"j{number}", submit_s=1000.0 * number, rates={1: 1.0})
            alive.add(made.speed)
            most_alive = max(most_alive, len(alive))
            yield made

    def note(num: int) -> None:
        nonlocal num_ended
        num_ended = num

    outcome = simulate(head("fifo"), scenario(RepeatedJobs(NUM_JOBS, jobs)), progress=note)
    assert most_alive <= 3
    assert [ended.id for ended in outcome.jobs] == [f"j{number}" for number in range(NUM_JOBS)]
    assert {ended.phase for ended in outcome.jobs} == {Phase.SUCCEEDED}


ARRIVALS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, 200), st.none() | st.integers(0, 30)), min_size=1, max_size=10
)


@pytest.mark.slow
@settings(max_examples=fewer_if_quick(40), deadline=None)
@given(arrivals=ARRIVALS, policy=st.sampled_from(["fifo", "elasticflow", "srtf"]))
def test_what_comes_out_does_not_depend_on_where_jobs_wait(
    arrivals: list[tuple[int, int, int | None]], policy: str
) -> None:
    """From a list, in any order, or made as time comes to them; many at one moment, some given up then."""
    jobs = [
        job(
            f"j{number}",
            submit_s=10.0 * at,
            steps=steps,
            cancel_s=None if cancel is None else 10.0 * (at + cancel),
        )
        for number, (at, steps, cancel) in enumerate(arrivals)
    ]
    by_submission = sorted(jobs, key=lambda one: one.submit_s)
    streamed = simulate(head(policy, 10.0), scenario(RepeatedJobs(len(jobs), lambda: iter(by_submission))))
    whole = run(jobs, policy)
    assert {ended.id: ended for ended in streamed.jobs} == {ended.id: ended for ended in whole.jobs}
    assert [ended.id for ended in whole.jobs] == [one.id for one in jobs]
    assert streamed.num_events == whole.num_events


def test_a_job_that_comes_too_late_or_twice_is_named() -> None:
    jobs = [job("late", 5.0), job("early", 1.0)]
    with pytest.raises(ValueError, match="job 'early' comes after a later one; sort jobs by submission"):
        simulate(head(), scenario(RepeatedJobs(2, lambda: iter(jobs))))
    with pytest.raises(ValueError, match="job 'late' is in the workload twice"):
        run([jobs[0], jobs[0]])


@given(puts=st.lists(st.tuples(st.integers(0, 3), st.booleans())))
def test_what_is_put_first_comes_first_at_its_moment_and_else_ties_keep_their_order(
    puts: list[tuple[int, bool]],
) -> None:
    agenda, out = Agenda(), list[tuple[int, bool, int]]()

    def note(key: tuple[int, bool, int], now_s: float) -> None:
        out.append(key)

    for number, (at_s, is_first) in enumerate(puts):
        key = (at_s, not is_first, number)
        (agenda.put_first if is_first else agenda.put)(float(at_s), partial(note, key))
    for happening in agenda.pop_due(9.0):
        happening(9.0)
    assert out == sorted(out)
    assert len(out) == len(puts)
