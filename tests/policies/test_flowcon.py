"""What FlowCon promises: shares by growth efficiency, by Algorithms 1 and 2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policies.shared_cores import Learner, exponential, share_cores, some_learners
from tests.policies.snapshots import Job, best_effort, snapshot

from swell.core.last_plan import PolicyState
from swell.model.plan import Allocation
from swell.policies.flowcon import COMPLETING, NEW, WATCHING, FlowCon, why_flat

ITVAL_S = 20.0
LOSSES = st.sampled_from([math.nan, 0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 100.0])


class Node:
    """One node on which jobs run that report a loss and their CPU seconds; the policy keeps its memory."""

    def __init__(self, policy: FlowCon | None = None) -> None:
        self.policy, self.state = policy or FlowCon(), PolicyState()

    def at(self, now_s: float, jobs: Mapping[str, tuple[float, float]]) -> Allocation:
        """Jobs as (loss, CPU s), all of them on the node."""
        rows = [
            best_effort(name, {1: 1.0}, 1e6, held=1, value=loss, value_at=0.0, cpu=cpu_s)
            for name, (loss, cpu_s) in jobs.items()
        ]
        self.state.begin("flowcon", now_s)
        view = snapshot(rows, 10, now_s=now_s)
        answer = self.policy.decide(replace(view, memory=self.state.memory))
        self.state.end(answer.memory, math.inf)
        return answer

    def shares(self, now_s: float, jobs: Mapping[str, tuple[float, float]]) -> list[float]:
        share = self.at(now_s, jobs).share
        assert share is not None
        shares: list[float] = share.tolist()
        return shares

    def lists(self) -> dict[str, str]:
        members = self.state.memory["workers"]["0"]["members"]
        return {name: member.get("group", NEW) for name, member in members.items()}


def test_a_job_that_slows_down_goes_from_new_by_watching_to_completing_and_back() -> None:
    """Algorithm 1, lines 4-13; alpha is a part of the job's own best growth efficiency."""
    node = Node(FlowCon(alpha=0.1))
    losses = [10.0, 8.0, 7.9, 7.8, 7.7, 6.7]  # falls of 2, 0.1, 0.1, 0.1, 1 in 20 CPU seconds each
    lists = []
    for turn, loss in enumerate(losses):
        node.at(turn * ITVAL_S, {"a": (loss, 20.0 * turn), "b": (-float(turn), 20.0 * turn)})
        lists.append(node.lists()["a"])
    assert lists == [NEW, NEW, WATCHING, COMPLETING, COMPLETING, NEW]


def test_at_alpha_a_job_still_grows() -> None:
    """Line 10: G >= alpha."""
    for fall, group in ((0.25, NEW), (0.24, WATCHING)):
        node = Node(FlowCon(alpha=0.25))
        for turn, loss in enumerate([4.0, 3.0, 3.0 - fall]):
            node.at(turn * ITVAL_S, {"a": (loss, float(turn))})
        assert node.lists()["a"] == group


def test_growth_is_for_each_cpu_second_and_not_for_each_second() -> None:
    """Eq. 2: as much progress with a tenth of the CPU is ten times the growth."""
    node = Node(FlowCon(alpha=0.5))
    for turn, (loss, cpu_s) in enumerate([(4.0, 0.0), (3.0, 10.0), (2.9, 11.0)]):
        node.at(turn * ITVAL_S, {"a": (loss, cpu_s)})
    assert node.lists()["a"] == NEW


def completing(node: Node, num: int, *, until: int = 5) -> dict[str, tuple[float, float]]:
    """The first job is left in CL and the others, which learn on, in NL."""
    jobs: dict[str, tuple[float, float]] = {}
    for turn in range(until):
        slow = {"a": (0.0 if turn else 100.0, float(turn))}
        jobs = slow | {f"g{one}": (-float(turn), float(turn)) for one in range(num - 1)}
        node.at(turn * ITVAL_S, jobs)
    return jobs


@pytest.mark.parametrize("beta", [1.0, 2.0, 4.0])
def test_a_job_that_completes_has_the_floor_of_one_over_beta_times_the_jobs(beta: float) -> None:
    """Lines 20-22 and 26: floor and parts of the sum."""
    node = Node(FlowCon(beta=beta))
    jobs = completing(node, 3)
    assert node.lists() == {"a": COMPLETING, "g0": NEW, "g1": NEW}
    floor = 1.0 / (beta * 3)
    assert node.shares(81.0, jobs) == pytest.approx([floor, max(floor, 0.5), max(floor, 0.5)])


def test_a_watched_job_keeps_its_share() -> None:
    """Line 24."""
    node = Node()
    losses = {"a": [10.0, 8.0, 7.99], "b": [10.0, 8.0, 6.5]}
    shares = [
        node.shares(turn * ITVAL_S, {name: (of[turn], float(turn)) for name, of in losses.items()})
        for turn in range(3)
    ]
    assert node.lists() == {"a": WATCHING, "b": NEW}
    assert shares[1] == [0.5, 0.5] and shares[2][0] == shares[1][0]


def test_a_new_job_has_the_whole_share_until_it_is_measured() -> None:
    """Section 5.3: MNIST at 40 s has 1, and VAE, which grows slowly, 0.25, the floor of two jobs."""
    node = Node()
    for turn in range(3):
        node.at(turn * ITVAL_S, {"vae": (0.0 if turn else 100.0, 20.0 * turn)})
    shares = node.shares(41.0, {"vae": (0.0, 41.0), "mnist": (2.3, 0.0)})
    assert shares[1] == 1.0
    node = Node()
    completing(node, 1, until=4)
    assert node.lists() == {"a": COMPLETING}
    assert node.shares(61.0, {"a": (0.0, 4.0), "mnist": (2.3, 0.0)}) == [0.25, 1.0]


def test_where_all_complete_they_compete_freely_and_the_interval_doubles() -> None:
    """Lines 14-17; no event resets it, so it goes on doubling."""
    node, now_s, waits = Node(), 0.0, []
    for turn in range(7):
        loss = 5.0 if turn == 0 else 4.0
        answer = node.at(now_s, {"a": (loss, float(turn)), "b": (2 * loss, float(turn))})
        waits.append(answer.wake_s - now_s)
        now_s = answer.wake_s
    assert answer.share is not None and answer.share.tolist() == [1.0, 1.0]
    assert waits == [ITVAL_S, ITVAL_S, ITVAL_S, 2 * ITVAL_S, 4 * ITVAL_S, 8 * ITVAL_S, 16 * ITVAL_S]


@pytest.mark.parametrize("change", ["arrival", "exit", "both"])
def test_arrival_and_exit_reset_the_interval(change: str) -> None:
    """Algorithm 2, also for an arrival and an exit in one moment, when the number of jobs stays as it was."""
    node, now_s = Node(), 0.0
    for turn in range(6):
        loss = 5.0 if turn == 0 else 4.0
        now_s = node.at(now_s, {"a": (loss, float(turn)), "b": (loss, float(turn))}).wake_s
    later_s = now_s - 100.0
    jobs = {"a": (4.0, 6.0), "b": (4.0, 6.0), "c": (4.0, 6.0)}
    gone = {"arrival": (), "exit": ("b", "c"), "both": ("b",)}[change]
    answer = node.at(later_s, {name: job for name, job in jobs.items() if name not in gone})
    assert answer.wake_s == later_s + ITVAL_S
    assert node.state.memory["workers"]["0"]["interval_s"] == ITVAL_S


def test_a_job_that_learns_again_ends_the_back_off() -> None:
    node, now_s = Node(), 0.0
    for turn, loss in enumerate([5.0, 4.0, 4.0, 4.0, 4.0, 3.0]):
        answer = node.at(now_s, {"a": (loss, float(turn)), "b": (5.0 if turn == 0 else 4.0, float(turn))})
        now_s, before_s = answer.wake_s, now_s
    assert node.lists()["a"] == NEW
    assert now_s - before_s == ITVAL_S


def test_between_two_measurements_nothing_is_measured() -> None:
    node = Node()
    node.at(0.0, {"a": (5.0, 0.0), "b": (5.0, 0.0)})
    node.at(20.0, {"a": (4.0, 1.0), "b": (4.0, 1.0)})
    before = node.state.memory
    answer = node.at(25.0, {"a": (4.0, 9.0), "b": (3.0, 9.0)})
    assert node.state.memory == before
    assert answer.wake_s == 40.0


def test_a_loss_that_rises_is_no_progress() -> None:
    """Eq. 1 has an absolute value, by which a job that diverges would grow."""
    node = Node()
    for turn in range(4):
        answer = node.at(
            turn * ITVAL_S, {"up": (2.0**turn, float(turn)), "down": (-float(turn), float(turn))}
        )
    assert node.lists() == {"up": COMPLETING, "down": NEW}
    assert "has not improved" in answer.account.text(0) and answer.account.codes == ["flat", "sharing"]


@pytest.mark.parametrize(("rises", "way"), [(False, "down"), (True, "up")])
def test_which_way_it_is_to_go_is_told(rises: bool, way: str) -> None:
    """A user who has named the wrong one finds it there."""
    row = best_effort("a", {1: 1.0}, 1e6, held=1, value=1.0, value_at=0.0, cpu=1.0, rises=rises)
    learning = snapshot([row], 1).learning
    assert learning is not None and why_flat(learning, 0).endswith(f"is to go {way}")


def later(rows: list[Job]) -> Allocation:
    """The second answer, an interval after the first."""
    first = FlowCon().decide(snapshot(rows, 10))
    assert "blind" not in first.account.codes
    return FlowCon().decide(replace(snapshot(rows, 10, now_s=first.wake_s), memory=first.memory))


def test_each_node_divides_its_own_cores() -> None:
    """And a job on several nodes is no neighbour of any."""
    rows = [
        best_effort(name, {1: 1.0}, 1e6, held=1, value=value, value_at=0.0, cpu=1.0, node=node)
        for name, node, value in (("a", 0, math.nan), ("b", 0, 1.0), ("c", 1, math.nan), ("d", -1, 1.0))
    ]
    answer = later(rows)
    assert answer.share is not None and answer.share.tolist() == [1.0, 1.0, 1.0, 1.0]
    nodes = {name: set(node["members"]) for name, node in answer.memory["workers"].items()}
    assert nodes == {"0": {"a", "b"}, "1": {"c"}}


def test_slots_are_first_come_first_served_and_a_job_that_waits_has_no_share() -> None:
    rows = [best_effort(name, {1: 1.0, 2: 2.0}, 1e6, requested=2, submitted=at) for name, at in
            (("late", -1.0), ("early", -3.0), ("middle", -2.0))]  # fmt: skip
    answer = FlowCon().decide(snapshot(rows, 5))
    assert answer.workers.tolist() == [0, 2, 2]
    assert answer.share is not None and np.isnan(answer.share[0]) and (answer.share[1:] == 1.0).all()
    assert answer.wake_s == pytest.approx(1000.1)  # then they are on a node, and have neighbours
    again = FlowCon().decide(replace(snapshot(rows, 5), memory=answer.memory))
    assert math.isinf(again.wake_s)  # once: they may wait for their devices for long


@pytest.mark.slow
@given(
    losses=st.lists(st.lists(LOSSES, min_size=3, max_size=3), min_size=2, max_size=6),
    beta=st.sampled_from([1.0, 2.0, 5.0]),
    power=st.integers(-8, 8),
    offset=st.sampled_from([0.0, 1024.0, -64.0]),
)
def test_shares_keep_the_floor_and_do_not_depend_on_the_unit_of_the_loss(
    losses: list[list[float]], beta: float, power: int, offset: float
) -> None:
    """Powers of two and whole offsets: there rounding is the same."""
    one, other = Node(FlowCon(beta=beta)), Node(FlowCon(beta=beta))
    for turn, now in enumerate(losses):
        jobs = {f"j{place}": (loss, 3.0 * turn) for place, loss in enumerate(now)}
        scaled = {name: (2.0**power * (loss + offset), cpu_s) for name, (loss, cpu_s) in jobs.items()}
        shares = one.shares(turn * ITVAL_S, jobs)
        assert shares == pytest.approx(other.shares(turn * ITVAL_S, scaled))
        assert one.lists() == other.lists()
        assert min(shares) >= 1.0 / (beta * 3) and max(shares) <= 1.0


def test_the_late_short_job_of_the_fixed_schedule_ends_a_quarter_sooner() -> None:
    """Section 5.3, Figures 7 and 8: jobs at 0, 40 and 80 s, as long as Figure 8 shows them."""
    jobs = [
        Learner("vae", 0.0, 261.0, exponential(0.2)),
        Learner("mnist, PyTorch", 40.0, 105.0, exponential(0.2), scale=30.0),
        Learner("mnist, TensorFlow", 80.0, 28.0, exponential(0.2), scale=0.1),
    ]
    none, flowcon = share_cores(None, jobs), share_cores(FlowCon(), jobs)
    assert none.took_s[2] == pytest.approx(84.0, abs=1.0) and none.makespan_s == pytest.approx(394.0)
    assert flowcon.took_s[2] <= 0.75 * none.took_s[2]
    assert flowcon.makespan_s == pytest.approx(none.makespan_s)


@pytest.mark.slow
def test_with_ten_jobs_models_are_usable_sooner_on_average() -> None:
    """And some job pays for it: it completes while the others are new."""
    ratios = np.array(
        [
            share_cores(FlowCon(), jobs, seed=seed).over(share_cores(None, jobs, seed=seed))
            for seed in range(8)
            for jobs in [some_learners(seed)]
        ]
    )
    mean_jct, worst, makespan, usable = ratios.T
    assert usable.mean() < 0.95 and 0.9 < mean_jct.mean() < 1.1
    assert worst.max() > 1.3
    assert makespan == pytest.approx(1.0)
