"""Live runs on machines that are reclaimed: which intervals, who kills, and the simulation beside them."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.views import job_view

from swell.api.submission import parse
from swell.model.event import NodeJoined, Opened
from swell.model.job import Profile
from swell.model.node import Node
from swell.scheduler import new_core
from swell.settings import make_settings
from swell.sim.change_cost import AsMeasured
from swell.sim.gangs import GangTimings
from swell.sim.pool import IdleInterval, Pool
from swell_papers import reclaimer
from swell_papers.experiment import Context
from swell_papers.lent_intervals import LentInterval, Window, compressed, drawn
from swell_papers.lent_run import POLICY, SETTINGS, WINDOW
from swell_papers.live_run import LiveJob, LiveRun, PlannedJob
from swell_papers.reclaim import WORKLOAD, ReclaimExperiment
from swell_papers.reclaim_findings import findings_of
from swell_papers.reclaim_record import NodeSeen, PlayEnded, Reclaimed, ReclaimRun
from swell_papers.reclaim_twin import NodeDelays, compare, measured_delays, node_changes
from swell_papers.simulated_rerun import simulate

BEGUN_S = 1_800_000_000.0
KIND = "paced@64"
DELAYS = NodeDelays(join_s=4.0, notice_s=6.5)
COST = AsMeasured(pause_s=0.05, order_s=0.2)
PROFILE = Profile(
    device_kind=KIND,
    compute_s={64: 1.0, 32: 0.5, 22: 0.34375, 16: 0.25, 13: 0.203125, 11: 0.171875},
    allreduce_s={2: 0.002, 4: 0.004},
    grad_bytes=1000,
    state_bytes=3000,
    samples_per_epoch=512,
    start_s=0.3,
)


# ------------------------------------------------------------ intervals
@st.composite
def logs(draw: st.DrawFn) -> Pool:
    intervals = []
    for node in range(draw(st.integers(1, 12))):
        at_s = 0.0
        for _ in range(draw(st.integers(1, 4))):
            start_s = at_s + draw(st.floats(1.0, 8000.0))
            at_s = start_s + draw(st.floats(1.0, 8000.0))
            intervals.append(
                IdleInterval(f"n{node}", WINDOW.from_s + start_s - 2000.0, WINDOW.from_s + at_s - 2000.0)
            )
    return Pool(tuple(intervals), "a log")


def check(intervals: tuple[LentInterval, ...], window: Window) -> None:
    nodes: dict[str, list[LentInterval]] = {}
    for one in intervals:
        assert one.start_s >= 0.0 and one.end_s <= window.played_s + 1e-6
        assert one.end_s - one.start_s >= window.least_s - 1e-6
        nodes.setdefault(one.node, []).append(one)
    assert len(nodes) <= window.num_nodes
    for lent in nodes.values():
        assert all(
            after.start_s - before.end_s >= window.least_gap_s - 1e-6 for before, after in pairwise(lent)
        )


@given(pool=logs())
def test_intervals_of_a_log_can_be_followed_by_processes(pool: Pool) -> None:
    intervals = compressed(pool, WINDOW)
    check(intervals, WINDOW)
    taken = {one.node for one in intervals}
    rows = {
        (one.node, one.start_s, one.end_s)
        for one in pool.within(WINDOW.from_s, WINDOW.from_s + WINDOW.length_s).intervals
        if one.node in taken
    }
    assert {(one.node, one.start_s, one.end_s) for one in intervals} == {
        (node, start_s / WINDOW.times_faster, end_s / WINDOW.times_faster) for node, start_s, end_s in rows
    }, "none is left out of a node that is taken, and none is changed"


def test_of_a_block_of_nodes_one_is_taken() -> None:
    block = [
        IdleInterval(f"n{number}", WINDOW.from_s + 1000.0, WINDOW.from_s + 9000.0) for number in range(5)
    ]
    assert {one.node for one in compressed(Pool(tuple(block), "a log"), WINDOW)} == {"n0"}


@given(seed=st.integers(0, 10_000))
def test_intervals_are_drawn_where_there_is_no_log(seed: int) -> None:
    intervals = drawn(WINDOW, seed)
    assert intervals == drawn(WINDOW, seed)
    check(intervals, WINDOW)


# ------------------------------------------------------------ the third process
def test_the_reclaimer_kills_at_its_time_and_tells_when_all_are_gone() -> None:
    with subprocess.Popen(["sleep", "1000"]) as victim:
        words = [sys.executable, "-I", "-S", reclaimer.__file__]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            due_s = time.monotonic() + 0.3
            said, _ = process.communicate(f"{due_s} {victim.pid} n1\n")
        assert victim.wait() == -9
    name, sent_s, gone_s = said.split()
    assert name == "n1" and due_s <= float(sent_s) <= float(gone_s)


# ------------------------------------------------------------ beside a simulation
def simulated_run(parts: tuple[PlannedJob, ...]) -> ReclaimRun:
    """One that went exactly as it is simulated."""
    intervals = (
        LentInterval(node="a", start_s=0.0, end_s=180.0),
        LentInterval(node="a", start_s=246.0, end_s=360.0),
        LentInterval(node="b", start_s=0.0, end_s=147.0),
        LentInterval(node="c", start_s=99.0, end_s=156.0),
        LentInterval(node="d", start_s=160.0, end_s=360.0),
    )
    nodes = tuple(Node(name=name, devices=(f"{name}/0",), kind=KIND, is_borrowed=True) for name in "abcd")
    core = new_core(POLICY, make_settings(SETTINGS))
    joined = [NodeJoined(at_s=BEGUN_S, node=node) for node in nodes[:2]]
    core.handle([Opened(at_s=BEGUN_S, policy=POLICY), *joined])
    live = LiveRun(
        policy=POLICY,
        begun_s=BEGUN_S,
        head=core.save().decode(),
        devices=KIND,
        nodes=nodes,
        trials=(),
        jobs=tuple(_submitted(part) for part in parts),
        num_cores=2,
        load_before=0.1,
        load_after=0.5,
    )
    seen = [
        NodeSeen(node=one.node, at_s=one.start_s + DELAYS.join_s, has_joined=True)
        for one in intervals
        if one.start_s
    ]
    lost = [NodeSeen(node=one.node, at_s=one.end_s + DELAYS.notice_s, has_joined=False) for one in intervals]
    run = ReclaimRun(
        source="a log",
        intervals=intervals,
        played_s=360.0,
        settings=SETTINGS,
        ended=PlayEnded(run=live, seen=tuple(sorted((*seen, *lost), key=lambda one: one.at_s)), progress=()),
        reclaimed=tuple(
            Reclaimed(node=one.node, sent_s=one.end_s, gone_s=one.end_s + 0.02) for one in intervals
        ),
    )
    views = simulate(
        live,
        COST,
        GangTimings(report_s=1.0, grain_steps=1.0, notice_s=DELAYS.notice_s, checkpoint_interval_s=5.0),
        nodes=tuple(node_changes(run, DELAYS)),
        settings=make_settings(SETTINGS),
    )
    jobs = tuple(msgspec.structs.replace(job, view=views[job.view.id]) for job in live.jobs)
    ended = msgspec.structs.replace(run.ended, run=msgspec.structs.replace(live, jobs=jobs))
    return msgspec.structs.replace(run, ended=ended)


def _submitted(part: PlannedJob) -> LiveJob:
    at_s = BEGUN_S + part.at_s
    view = job_view(id=f"{part.name}-1", name=part.name, submitted_s=at_s)
    return LiveJob(spec=parse(part.fields(at_s)).to_spec(at_s), profile=PROFILE, view=view, stories=())


@pytest.mark.slow
def test_a_run_that_went_as_simulated_has_hardly_an_error(tmp_path: Path) -> None:
    """Its record can be read again."""
    run = simulated_run(WORKLOAD)
    delays = measured_delays(run)
    assert (delays.join_s, delays.notice_s) == pytest.approx((DELAYS.join_s, DELAYS.notice_s))
    found = compare(run)
    # Costs of changes are taken to be their means, and launches differ by their workers.
    assert found.mean_error_share is not None and found.mean_error_share < 0.02
    assert found.simulated_samples(359.0) > 0.0
    (tmp_path / "reclaim-run.json").write_bytes(msgspec.json.encode(run))
    again = ReclaimExperiment().run(Context(data=tmp_path, played=tmp_path))
    assert again == findings_of("reclaim", run)
    assert again.missed == ()


def test_what_was_lost_or_repeated_is_missed() -> None:
    run = simulated_run(WORKLOAD[:2])
    first, *others = run.ended.run.jobs
    view = msgspec.structs.replace(first.view, metrics={"samples_lost": 3.0, "samples_repeated": 0.0})
    jobs = (msgspec.structs.replace(first, view=view), *others)
    ended = msgspec.structs.replace(run.ended, run=msgspec.structs.replace(run.ended.run, jobs=jobs))
    assert (
        "samples_lost: 3, and not 0"
        in findings_of("reclaim", msgspec.structs.replace(run, ended=ended)).missed
    )
