"""What really happens in a simulated run, worked out by hand and as laws."""

from __future__ import annotations

import dataclasses
import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.sim.worlds import RATES, job, run

from swell.model.event import AnyEvent, NodeJoined, NodeLost
from swell.model.job import Phase
from swell.sim.change_cost import Cost, GangChange, change_cost
from swell.sim.gangs import GangTimes
from swell.sim.metrics import metrics_of
from swell.sim.outcome import JobOutcome, SimOutcome
from swell.sim.simulate import cluster

POLICIES = ("elasticflow", "fifo", "equal_share", "pollux")


def test_a_job_alone_takes_its_work_over_its_best_rate() -> None:
    (only,) = run([job("a", submit_s=5.0, steps=300)]).jobs
    assert only.phase is Phase.SUCCEEDED
    assert (only.start_s, only.end_s) == (5.0, 5.0 + 300 / RATES[4])
    assert only.device_s == pytest.approx(4 * 100.0)
    assert only.single_device_s == 300.0


def test_whoever_changes_pays_for_it() -> None:
    # On 4 devices it has never been on: 2 + 2 (log2 4 + 1) = 8 s, and nothing is trained in them.
    (only,) = run([job("a", steps=300)], cost="changed").jobs
    assert only.end_s == pytest.approx(8.0 + 100.0)


def test_a_deadline_that_cannot_be_kept_is_refused_and_the_offer_would_have_been_kept() -> None:
    (refused,) = run([job("a", steps=300, deadline_s=90.0)]).jobs
    assert refused.phase is Phase.REJECTED and refused.is_kept is False
    assert refused.counter_offer_s is not None
    (kept,) = run([job("a", steps=300, deadline_s=refused.counter_offer_s)]).jobs
    assert kept.is_promised and kept.is_kept


def test_a_job_is_refused_that_may_have_no_size_that_the_policy_gives() -> None:
    """As at submission to a platform: it would wait for ever, on devices that are free."""
    three, five = job("three", rates={3: 3.0}), job("five", rates={5: 5.0, 7: 7.0})
    for refused in run([three, five], "elasticflow").jobs:
        assert refused.phase is Phase.REJECTED
        assert refused.why.endswith("the policy gives powers of two, and none that the job may have fits")
    assert all(kept.phase is Phase.SUCCEEDED for kept in run([three, five], "bftrainer").jobs)


def test_what_was_done_since_the_last_checkpoint_is_lost_with_the_last_worker() -> None:
    nodes = cluster(1, 8, "gpu")
    others: list[AnyEvent] = [NodeLost(at_s=50.0, name="n0"), NodeJoined(at_s=60.0, node=nodes[0])]
    (only,) = run([job("a", steps=300)], others=others, timings=GangTimes(checkpoint_interval_s=20.0)).jobs
    # 50 s trained, checkpoints at 5, 25 and 45 s: 5 s are lost, and 10 s waited.
    assert only.end_s == pytest.approx(100.0 + 5.0 + 10.0, abs=0.5)


def test_survivors_of_a_lost_node_go_on_from_where_they_were() -> None:
    rates = {16: 16.0}
    (only,) = run([job("a", steps=1600, rates=rates)], nodes=2, others=[NodeLost(at_s=50.0, name="n1")]).jobs
    assert only.phase.is_end is False or only.phase is Phase.SUCCEEDED
    assert [size for _, size in only.sizes][:2] == [16, 8]


def test_a_buggy_job_fails_where_it_dies_and_a_cancelled_one_ends_when_its_user_says_so() -> None:
    buggy, gone = run([job("buggy", steps=300, dies_at_step=30), job("gone", steps=300, cancel_s=20.0)]).jobs
    assert buggy.phase is Phase.FAILED and buggy.end_s is not None and buggy.end_s < 40.0
    assert gone.phase is Phase.CANCELLED and gone.end_s == 20.0


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_two_runs_of_one_input_are_equal_to_the_byte(policy: str) -> None:
    jobs = [job(f"j{i}", submit_s=7.0 * i, steps=100 + 37 * i, deadline_s=500.0 + 11 * i) for i in range(20)]
    first, second = (msgspec.json.encode(tuple(run(jobs, policy, cost="changed").jobs)) for _ in range(2))
    assert first == second


submissions = st.lists(
    st.tuples(
        st.floats(0.0, 500.0),
        st.integers(1, 500),
        st.none() | st.floats(1.0, 3.0),
        st.none() | st.integers(1, 500),
        st.none() | st.floats(0.0, 600.0),
    ),
    min_size=1,
    max_size=12,
)
failures = st.lists(st.tuples(st.floats(0.0, 600.0), st.integers(0, 1), st.floats(1.0, 100.0)), max_size=3)


@pytest.mark.slow
@given(submissions, failures, st.sampled_from(POLICIES), st.sampled_from(["changed", "profile", "none"]))
@settings(max_examples=share_of_examples(0.4), deadline=None)
def test_every_job_ends_and_no_device_is_used_twice(
    rows: list[tuple[float, int, float | None, int | None, float | None]],
    faults: list[tuple[float, int, float]],
    policy: str,
    cost: str,
) -> None:
    jobs = [
        job(
            f"j{i}",
            submit_s=submit_s,
            steps=steps,
            deadline_s=None if slack is None else submit_s + slack * steps,
            dies_at_step=dies,
            cancel_s=None if cancel_s is None else submit_s + cancel_s,
        )
        for i, (submit_s, steps, slack, dies, cancel_s) in enumerate(rows)
    ]
    outcome = run(jobs, policy, nodes=2, cost=cost, others=_outages(faults))
    for ended in outcome.jobs:
        assert ended.phase.is_end, ended
        _check_times(ended)
    assert (outcome.usage.used_devices <= 16).all()
    _check_counts(outcome)


def _outages(faults: list[tuple[float, int, float]]) -> list[AnyEvent]:
    nodes = cluster(2, 8, "gpu")
    downs: list[AnyEvent] = [NodeLost(at_s=at_s, name=f"n{which}") for at_s, which, _ in faults]
    ups: list[AnyEvent] = [
        NodeJoined(at_s=at_s + lasts_s, node=nodes[which]) for at_s, which, lasts_s in faults
    ]
    return downs + ups


def _check_times(ended: JobOutcome) -> None:
    assert ended.end_s is not None and ended.end_s >= ended.submit_s
    assert all(at_s >= ended.submit_s for at_s, _ in ended.sizes)
    if ended.phase is Phase.SUCCEEDED:
        assert ended.device_s > 0 and ended.jct_s is not None
    if ended.phase is Phase.REJECTED:
        assert ended.device_s == 0


def _check_counts(outcome: SimOutcome) -> None:
    metrics = metrics_of(outcome)
    ended = metrics.completed + metrics.failed + metrics.cancelled + metrics.rejected
    assert ended + metrics.unfinished == metrics.jobs == len(outcome.jobs)
    assert 0.0 <= metrics.device_utilization <= 1.0 + 1e-9


def test_a_job_gets_no_more_workers_than_its_script_has_shards() -> None:
    whole = job("a", steps=300)
    cut = dataclasses.replace(whole, profile=msgspec.structs.replace(whole.profile, num_shards=2))
    (only,) = run([cut]).jobs
    assert only.phase is Phase.SUCCEEDED
    assert max(size for _, size in only.sizes) == 2


def test_a_job_that_fails_of_its_own_misses_its_deadline_and_breaks_no_promise() -> None:
    outcome = run([job("buggy", steps=300, deadline_s=500.0, dies_at_step=30), job("fine", deadline_s=500.0)])
    metrics = metrics_of(outcome)
    assert (metrics.deadline_satisfaction, metrics.admitted, metrics.admitted_late) == (0.5, 2, 0)


def test_a_promised_job_that_is_late_as_its_nodes_are_lost_counts_as_late_and_does_not_fail() -> None:
    nodes = cluster(1, 8, "gpu")
    others: list[AnyEvent] = []
    for at_s in range(10, 800, 20):  # gone again before anything could be saved
        others += [NodeLost(at_s=float(at_s), name="n0"), NodeJoined(at_s=at_s + 5.0, node=nodes[0])]
    timings = GangTimes(checkpoint_interval_s=math.inf)
    outcome = run([job("a", steps=300, deadline_s=500.0)], others=others, timings=timings)
    assert outcome.jobs[0].phase is Phase.SUCCEEDED and outcome.jobs[0].is_promised
    metrics = metrics_of(outcome)
    assert (metrics.deadline_satisfaction, metrics.admitted, metrics.admitted_late) == (0.0, 1, 1)


def test_a_delayed_growth_trains_on_at_its_old_size() -> None:
    """Hu et al., section 5.5: for 15 s on the current nodes, and a shrink takes no time."""
    delayed = change_cost("delay:15", 8)
    assert delayed(change(0, 4)) == Cost(15.0, 0.0) == delayed(change(2, 4))
    assert delayed(change(4, 2)) == Cost(0.0, 0.0)
    with pytest.raises(ValueError, match="delay:SECONDS or a number"):
        change_cost("delay:soon", 8)


def change(before: int, after: int) -> GangChange:
    return GangChange(before, after, is_known_set=False, state_bytes=0.0, start_s=0.0)
