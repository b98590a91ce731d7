"""Borrowed nodes from a log: they join and leave as it says, and no job keeps one that has left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.sim.worlds import head, job

from swell.model.command import AnyCommand
from swell.model.errors import InvalidInput
from swell.model.event import NodeJoined, NodeLost, NodeWarned
from swell.model.job import Phase
from swell.sim.change_cost import constant
from swell.sim.gangs import GangTimes
from swell.sim.job import SimJob
from swell.sim.metrics import metrics_of
from swell.sim.outcome import SimOutcome
from swell.sim.pool import NodeInterval, Pool, read_names, read_pool
from swell.sim.simulate import cluster, simulate
from swell.sim.world import Scenario, SimulatedWorld

POLICIES = ("elasticflow", "equal_share", "pollux", "srtf")
RATES = {size: float(size) for size in (1, 2, 4, 8, 16)}


def pool_of(*intervals: tuple[str, float, float, int]) -> Pool:
    return Pool(tuple(NodeInterval(*one) for one in intervals), "a log", kind="gpu")


def run(pool: Pool, jobs: Sequence[SimJob], policy: str = "equal_share", num_owned: int = 0) -> SimOutcome:
    """With `num_owned` nodes of one device each beside the pool."""
    nodes = cluster(num_owned, 1, "gpu")
    return simulate(head(policy), Scenario(nodes=nodes, jobs=jobs, cost=constant(1.0), pool=pool))


def told(pool: Pool, jobs: Sequence[SimJob], policy: str) -> list[tuple[float, AnyCommand]]:
    """What the head commands, and when; no gang is ever on a node that has left."""
    world = SimulatedWorld(Scenario(nodes=[], jobs=jobs, cost=constant(5.0), pool=pool))
    core, commands = head(policy), []
    while batch := world.next_events():
        for command in core.handle(batch):
            commands.append((world.now_s, command))
            world.perform(command)
        assert world.num_kept == 0
    return commands


# One log, one world


def test_a_job_grows_onto_borrowed_nodes_and_gives_each_back_at_once() -> None:
    pool = pool_of(("a", 0.0, 100.0, 4), ("b", 50.0, math.inf, 2))
    outcome = run(pool, [job("only", steps=1000, rates=RATES)])
    (only,) = outcome.jobs
    assert only.phase is Phase.SUCCEEDED
    assert outcome.kept_device_s == 0.0
    assert next(workers for at_s, workers in only.sizes if at_s >= 100.0) <= 2
    assert max(workers for at_s, workers in only.sizes if at_s < 100.0) == 4


def test_a_job_without_any_node_waits_and_is_not_refused() -> None:
    """No node is idle when it is submitted, nor at times later; no reclaim is the job's fault."""
    gaps = [(f"n{turn}", 100.0 * turn + 50.0, 100.0 * turn + 80.0, 1) for turn in range(20)]
    pool = pool_of(*gaps, ("last", 3000.0, math.inf, 1))
    (only,) = run(pool, [job("only", steps=700, rates={1: 1.0})]).jobs
    assert only.phase is Phase.SUCCEEDED
    assert only.start_s == pytest.approx(51.0)


def test_a_job_that_not_even_all_nodes_together_could_hold_is_refused() -> None:
    pool = pool_of(("a", 0.0, 100.0, 4), ("b", 500.0, math.inf, 4))
    fits, too_large = run(pool, [job("fits", rates={8: 1.0}), job("large", rates={16: 1.0})]).jobs
    assert too_large.phase is Phase.REJECTED and "needs 16 devices" in too_large.why
    assert fits.phase is Phase.QUEUED  # the two are never idle together, and the head cannot know


def test_changes_of_one_moment_are_one_batch_whatever_the_order_of_rows() -> None:
    """Nodes leave before others join: a node that is given back and lent again at once is another loan."""
    intervals = [("a", 0.0, 10.0, 1), ("b", 10.0, 20.0, 2), ("a", 10.0, 30.0, 1), ("c", 0.0, 10.0, 1)]
    batches = []
    for rows in (intervals, intervals[::-1]):
        world = SimulatedWorld(Scenario(nodes=[], jobs=[], cost=constant(0.0), pool=pool_of(*rows)))
        world.next_events()
        batches.append(list(world.next_events()))
    assert batches[0] == batches[1]
    names = [event.name for event in batches[0] if isinstance(event, NodeLost)]
    joined = [event.node for event in batches[0] if isinstance(event, NodeJoined)]
    assert names == ["a", "c"] and [node.name for node in joined] == ["a", "b"]
    assert all(node.is_borrowed for node in joined) and len(joined[1].devices) == 2


def test_a_warning_lets_a_job_move_before_its_node_leaves() -> None:
    """Without it the steps since the last checkpoint are lost."""
    plain = pool_of(("a", 0.0, 100.0, 2), ("b", 60.0, math.inf, 2))
    ends_s = []
    for pool in (plain, replace(plain, warning_s=20.0)):
        outcome = run(pool, [job("only", steps=400, rates={1: 1.0, 2: 2.0})])
        (only,) = outcome.jobs
        assert only.phase is Phase.SUCCEEDED and only.end_s is not None
        ends_s.append(only.end_s)
    assert ends_s[1] < ends_s[0]


@given(warning_s=st.floats(0.1, 50.0))
def test_a_warning_comes_as_long_before_but_not_before_the_node(warning_s: float) -> None:
    pool = replace(pool_of(("a", 5.0, 25.0, 1), ("b", 0.0, math.inf, 1)), warning_s=warning_s)
    (warned,) = [event for event in pool.changes() if isinstance(event, NodeWarned)]
    assert warned.name == "a" and warned.until_s == 25.0
    assert warned.at_s == max(5.0, 25.0 - warning_s)


def test_what_was_lent_is_counted_as_equations_17_and_18_say() -> None:
    pool = pool_of(("a", 0.0, 100.0, 4), ("b", 50.0, math.inf, 2))
    assert pool.node_s(0.0, 200.0) == 100.0 + 150.0
    assert pool.device_s(60.0, 200.0) == 4 * 40.0 + 2 * 140.0
    assert pool.equivalent_nodes(0.0, 200.0) == pytest.approx(1.25)
    outcome = run(pool, [job("only", steps=300, rates=RATES)], num_owned=1)
    metrics = metrics_of(outcome)
    assert metrics.resource_integral_node_h == pytest.approx(pool.node_s(0.0, metrics.makespan_s) / 3600.0)
    assert 0.0 < metrics.device_utilization <= 1.0
    assert metrics.kept_device_s == 0.0


def test_jobs_that_do_not_end_count_until_the_pool_is_empty() -> None:
    pool = pool_of(("a", 0.0, 400.0, 2))
    metrics = metrics_of(
        run(pool, [job("long", steps=10_000, rates=RATES), job("short", steps=10, rates=RATES)])
    )
    assert metrics.completed == 1 and metrics.unfinished == 1
    assert metrics.resource_integral_node_h == pytest.approx(400.0 / 3600.0)
    assert metrics.equivalent_nodes == pytest.approx(1.0)
    assert metrics.device_utilization <= 1.0


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.4), deadline=None)
@given(
    stays=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=8
    ),
    notice_s=st.sampled_from([0.0, 5.0, 35.0]),
)
def test_no_more_is_used_than_was_lent_however_late_a_loss_is_noticed(
    stays: list[tuple[str, int, int]], notice_s: float
) -> None:
    """Each node is there in turns that do not overlap."""
    ends_s, intervals = dict.fromkeys("abc", 0.0), list[tuple[str, float, float, int]]()
    for name, rest, length in stays:
        start_s = ends_s[name] + 20.0 * rest
        ends_s[name] = start_s + 20.0 * length
        intervals.append((name, start_s, ends_s[name], 2))
    jobs = [job("long", steps=100_000, rates=RATES), job("other", steps=100_000, rates=RATES)]
    timings = GangTimes(notice_s=notice_s)
    scenario = Scenario(nodes=(), jobs=jobs, cost=constant(1.0), pool=pool_of(*intervals), timings=timings)
    assert metrics_of(simulate(head("equal_share"), scenario)).device_utilization <= 1.0 + 1e-9


@pytest.mark.parametrize("submit_s", [110.0, 130.0])
def test_a_gang_that_never_formed_on_a_node_that_is_gone_used_none_of_it(submit_s: float) -> None:
    """The head starts it there, for it has yet to hear of the loss."""
    pool = pool_of(("a", 0.0, 100.0, 2), ("b", 300.0, 400.0, 2))
    scenario = Scenario(
        nodes=(),
        jobs=[job("only", steps=100_000, rates=RATES, submit_s=submit_s)],
        cost=constant(1.0),
        pool=pool,
        timings=GangTimes(notice_s=35.0),
    )
    outcome = simulate(head("equal_share"), scenario)
    assert outcome.unnoticed_device_s == pytest.approx(2 * 35.0)
    assert metrics_of(outcome).device_utilization == pytest.approx(0.99)


def test_a_window_begins_at_zero_and_all_nodes_leave_at_its_end() -> None:
    pool = pool_of(("a", 0.0, 100.0, 1), ("b", 50.0, math.inf, 1), ("c", 300.0, 400.0, 1))
    part = pool.within(80.0, 200.0)
    assert part.intervals == (NodeInterval("a", 0.0, 20.0), NodeInterval("b", 0.0, 120.0))
    assert pool.of_nodes(["c", "d"]).intervals == (NodeInterval("c", 300.0, 400.0),)


# The future


moments = st.integers(0, 60).map(lambda tens: 10.0 * tens)


@st.composite
def idle_intervals(draw: st.DrawFn, from_s: float = 0.0) -> list[NodeInterval]:
    """Of six nodes of one to four devices, those of a node one after the other."""
    intervals = []
    for number in range(6):
        edges = sorted({from_s + draw(moments) for _ in range(draw(st.integers(0, 3)) * 2)})
        pairs = zip(edges[::2], edges[1::2], strict=False)
        intervals += [NodeInterval(f"n{number}", begin, end, 1 + number % 4) for begin, end in pairs]
    return intervals


def changed_after(intervals: list[NodeInterval], at_s: float, later: list[NodeInterval]) -> Pool:
    """The same up to `at_s`; who is idle then stays for ever, and others come as `later` says."""
    known = [one for one in intervals if one.start_s <= at_s]
    kept = [one._replace(end_s=one.end_s if one.end_s <= at_s else math.inf) for one in known]
    busy = {one.node for one in kept if math.isinf(one.end_s)}
    return Pool((*kept, *(one for one in later if one.node not in busy)), "another log", kind="gpu")


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=share_of_examples(0.1), deadline=None)
@given(data=st.data())
def test_two_logs_that_part_at_a_moment_lead_to_the_same_commands_up_to_then(
    policy: str, data: st.DataObject
) -> None:
    """The end of an idle interval never reaches the head before it comes."""
    intervals, at_s = data.draw(idle_intervals()), data.draw(moments)
    later = data.draw(idle_intervals(from_s=at_s + 1.0))
    jobs = [job(f"j{number}", 40.0 * number, steps=900, rates=RATES) for number in range(4)]
    one = told(Pool(tuple(intervals), "a log", kind="gpu"), jobs, policy)
    other = told(changed_after(intervals, at_s, later), jobs, policy)
    assert [entry for entry in one if entry[0] <= at_s] == [entry for entry in other if entry[0] <= at_s]


# Files


def test_a_log_is_read_in_any_order_of_rows_and_columns(tmp_path: Path) -> None:
    file = tmp_path / "pool.csv"
    file.write_text("end_s,node,devices,start_s\n-1,b,2,50\n\n100,a,4,0\n")
    pool = read_pool(file)
    assert sorted(pool.intervals) == [NodeInterval("a", 0.0, 100.0, 4), NodeInterval("b", 50.0, math.inf, 2)]
    assert pool.num_devices == 6
    file.write_text("node,start_s,end_s\nb,50,60\n")
    assert read_pool(file).intervals == (NodeInterval("b", 50.0, 60.0, 1),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node,start_s\na,0\n", "it has no column end_s"),
        ("node,start_s,end_s\n", "holds no idle interval"),
        ("", "it has no column node, start_s, end_s"),
        ("node,start_s,end_s\na,0,10\na,x,20\n", "line 3: start_s is not a number: 'x'"),
        ("node,start_s,end_s\na,0,nan\n", "line 2: a cell is blank"),
        ("node,start_s,end_s\na,0,inf\n", "line 2: end_s is not a finite number: 'inf'"),
        ("node,start_s,end_s\na,20,10\n", "line 2: node 'a' is idle from 20 s to 10 s; an interval ends"),
        ("node,start_s,end_s\na,20,20\n", "an interval ends after its start"),
        ("node,start_s,end_s\na,-5,20\n", "line 2: start_s is -5"),
        ("node,start_s,end_s\n,0,20\n", "line 2: a cell is blank; each row is about a node"),
        ("node,start_s,end_s\na,0\n", "line 2: number of cells is not that of the header: 2 instead of 3"),
        ("node,start_s,end_s,devices\na,0,5,0\n", "line 2: devices is 0"),
        (
            "node,start_s,end_s\na,10,30\nb,0,5\na,0,20\n",
            "line 4: node 'a' is idle twice at 10 s, see line 2",
        ),
        ("node,start_s,end_s\na,10,-1\na,20,30\n", "line 3: node 'a' is idle twice at 20 s, see line 2"),
    ],
)
def test_a_log_that_breaks_a_rule_is_refused_with_line_and_rule(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "pool.csv"
    file.write_text(text)
    with pytest.raises(InvalidInput) as error:
        read_pool(file)
    assert str(file) in str(error.value) and message in str(error.value)


def test_a_file_of_names_has_one_a_line(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_text("a\n\n b \n")
    assert read_names(file) == ("a", "b")
    file.write_text("\n")
    with pytest.raises(InvalidInput, match="names no node"):
        read_names(file)
