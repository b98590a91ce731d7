"""What BFTrainer promises: the map that is worth most, changes counted; and what its paper prints wrongly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policies.bftrainer_milp import NodeProblem, solve_nodes
from tests.policies.snapshots import best_effort, snapshot

from swell.arrays import IntArray
from swell.model.snapshot import Snapshot
from swell.policies.bftrainer import BFTrainer
from swell_papers.policies.bftrainer_equal_share import BFTrainerEqualShare

SIZES = range(1, 65)
LINEAR = {size: float(size) for size in range(1, 9)}
#: Samples a second of AlexNet and VGG-16 (Table 2), in thousands, and between its columns on straight lines.
TABLE_2 = {
    "alexnet": {1: 7.1, 2: 13.1, 4: 21.1, 8: 40.5, 16: 74.0, 32: 130.8, 64: 202.1},
    "vgg16": {1: 1.2, 2: 2.4, 4: 4.7, 8: 9.3, 16: 18.3, 32: 36.2, 64: 70.2},
    "shufflenet": {1: 2.8, 2: 5.3, 4: 10.0, 8: 20.4, 16: 38.9, 32: 74.1, 64: 145.1},
}


def curve(model: str) -> dict[int, float]:
    points = TABLE_2[model]
    return {size: float(np.interp(size, list(points), list(points.values()))) for size in SIZES}


def given_to(policy: BFTrainer | BFTrainerEqualShare, view: Snapshot) -> list[int]:
    workers: list[int] = policy.decide(view).workers.tolist()
    return workers


# Nodes and counts


def drawn_problem(seed: int, num_jobs: int, num_nodes: int) -> NodeProblem:
    """Sizes with holes below, curves that need not be concave, survivors fewer than the smallest size."""
    generator = np.random.default_rng([7, seed])
    owner = generator.integers(-1, num_jobs, num_nodes)  # -1: free; departed nodes are not here
    least = generator.integers(1, max(2, num_nodes // 2), num_jobs)
    least[generator.random(num_jobs) < 0.15] = num_nodes + 1  # does not fit at all
    most = np.minimum(least + generator.integers(0, num_nodes + 1, num_jobs), num_nodes)
    metric = []
    for job in range(num_jobs):
        rates = np.concatenate([[0.0], np.cumsum(generator.exponential(1.0, num_nodes))])
        rates *= generator.choice([0.3, 1.0, 3.0])
        number = np.arange(num_nodes + 1)
        metric.append(np.where((number >= least[job]) & (number <= most[job]), rates, 0.0))
    for job in range(num_jobs):
        own = np.flatnonzero(owner == job)
        owner[own[max(int(most[job]), 0) :]] = -1  # none holds more than it may
    return NodeProblem(
        held=owner[None, :] == np.arange(num_jobs)[:, None],
        least=tuple(least.tolist()),
        most=tuple(most.tolist()),
        metric=tuple(metric),
        up_s=tuple(generator.uniform(0.0, 40.0, num_jobs).tolist()),
        down_s=tuple(generator.uniform(0.0, 30.0, num_jobs).tolist()),
        forward_s=float(generator.choice([10.0, 30.0, 120.0])),
    )


def snapshot_of(problem: NodeProblem) -> Snapshot:
    """What the policy sees of it: counts. Survivors below the smallest size have no rate."""
    num_nodes = problem.held.shape[1]
    jobs = [
        best_effort(
            f"j{job}",
            {n: float(rates[n]) for n in range(1, num_nodes + 1) if rates[n] > 0.0},
            1e9,
            held=int(problem.held[job].sum()),
            growth_cost=problem.up_s[job],
            shrink_cost=problem.down_s[job],
            batch=1,
        )
        for job, rates in enumerate(problem.metric)
    ]
    return snapshot(jobs, num_nodes, sizes=range(1, num_nodes + 1))


def worth_of(problem: NodeProblem, counts: list[int]) -> float:
    """Equation 16 of these sizes."""
    total = 0.0
    for job, count in enumerate(counts):
        rates, present = problem.metric[job], int(problem.held[job].sum())
        cost_s = problem.up_s[job] * (count > present) + problem.down_s[job] * (count < present)
        total += problem.forward_s * rates[count] - rates[present] * cost_s
    return float(total)


def mapped(problem: NodeProblem, counts: list[int]) -> IntArray:
    """(N,) owner of each node, -1 for none: each job keeps own nodes and takes free ones."""
    owner = np.full(problem.held.shape[1], -1)
    for job, count in enumerate(counts):
        owner[np.flatnonzero(problem.held[job])[:count]] = job
    for job, count in enumerate(counts):
        missing = count - int((owner == job).sum())
        owner[np.flatnonzero(owner == -1)[:missing]] = job
    return owner


SMALL = [(seed, 2 + seed % 3, 4 + seed % 9) for seed in range(110)]
LARGER = [(seed, 3, 30 + 10 * (seed % 4)) for seed in range(200, 206)]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [SMALL[:55], SMALL[55:], LARGER], ids=["a", "b", "larger"])
def test_counts_are_worth_what_the_nodes_are(sizes: list[tuple[int, int, int]]) -> None:
    """The paper's model with a large enough M, departures and sizes that do not fit included."""
    for seed, num_jobs, num_nodes in sizes:
        problem = drawn_problem(seed, num_jobs, num_nodes)
        optimum = solve_nodes(problem, big_m=2 * num_nodes + 2).value
        view = snapshot_of(problem)
        counts = given_to(BFTrainer(t_fwd_s=problem.forward_s), view)
        assert worth_of(problem, counts) == pytest.approx(optimum, rel=1e-6, abs=1e-6), seed
        owner = mapped(problem, counts)
        for job, count in enumerate(counts):  # no migration (6)
            has = owner == job
            assert has.sum() == count
            assert (has ^ problem.held[job]).sum() == abs(count - problem.held[job].sum())


def test_the_printed_bound_of_m_cuts_off_the_optimum() -> None:
    """Eq. 10 with M = |N| + 1 forbids that one job grows from 0 to all 8 nodes; 2 |N| + 1 does not."""
    problem = NodeProblem(
        held=np.zeros((1, 8), dtype=bool),
        least=(1,),
        most=(8,),
        metric=(np.arange(9.0),),
        up_s=(18.0,),
        down_s=(12.0,),
        forward_s=10.0,
    )
    too_small = solve_nodes(problem, big_m=9).value
    large_enough = solve_nodes(problem, big_m=17).value
    assert large_enough == pytest.approx(80.0)
    assert too_small == pytest.approx(40.0)  # half of the nodes at most, (|N| + 1) / 2
    assert worth_of(problem, given_to(BFTrainer(t_fwd_s=10.0), snapshot_of(problem))) == pytest.approx(80.0)


# Equation 16, and what is wrong in it


def test_a_short_forward_time_keeps_sizes_that_a_long_one_changes() -> None:
    """A job on 4 nodes may grow to 5: 1 more in T s against 4 x 18 s lost."""
    job = best_effort("a", LINEAR, 1e9, held=4, growth_cost=18.0, shrink_cost=12.0)
    for forward_s, workers in ((71.0, 4), (73.0, 5)):
        assert given_to(BFTrainer(t_fwd_s=forward_s), snapshot([job], 5, sizes=SIZES)) == [workers]


def test_starting_is_free_in_print_and_charged_when_corrected() -> None:
    runs = best_effort("runs", LINEAR, 1e9, held=4)
    waits = best_effort("waits", {size: 3.0 * rate for size, rate in LINEAR.items()}, 1e9, start_cost=18.0)
    view = snapshot([runs, waits], 4, sizes=SIZES)
    assert given_to(BFTrainer(t_fwd_s=10.0), view) == [0, 4]
    assert given_to(BFTrainer(corrected=1, t_fwd_s=10.0), view) == [4, 0]
    assert given_to(BFTrainer(corrected=1, t_fwd_s=60.0), view) == [0, 4]


def test_new_nodes_idle_while_they_are_prepared() -> None:
    """From 1 to 8 nodes, at 20 s: in print 8 x 20 - 1 x 18 > 20; truly (20 - 18) x 8 < 20."""
    job = best_effort("a", LINEAR, 1e9, held=1, growth_cost=18.0)
    view = snapshot([job], 8, sizes=SIZES)
    assert given_to(BFTrainer(t_fwd_s=20.0), view) == [8]
    assert given_to(BFTrainer(corrected=1, t_fwd_s=20.0), view) == [1]


def test_throughput_prefers_fast_models_and_efficiency_those_that_scale() -> None:
    """Section 5.2.1: AlexNet's samples are quick, VGG-16 scales better."""
    fast, scaling = best_effort("fast", curve("alexnet"), 1e9), best_effort("scaling", curve("vgg16"), 1e9)
    view = snapshot([fast, scaling], 64, sizes=SIZES)
    assert given_to(BFTrainer(), view)[0] > 60
    by_efficiency = given_to(BFTrainer(efficiency_share=1.0), view)
    assert by_efficiency[1] > 32 > by_efficiency[0]


@given(first=st.integers(0, 8), second=st.integers(0, 8), num=st.integers(0, 8))
def test_dedicated_nodes_without_costs_are_divided_for_the_most_throughput(
    first: int, second: int, num: int
) -> None:
    """As many nodes for each of equal jobs is the optimum then (section 5.1)."""
    rates = {size: size**0.8 for size in range(1, 9)}
    jobs = [best_effort(name, rates, 1e9, held=held) for name, held in (("a", first), ("b", second))]
    one, other = given_to(BFTrainer(), snapshot(jobs, 2 * num, sizes=SIZES))
    assert one == other == num


def test_no_more_than_so_many_trainers_first_come_first_served() -> None:
    jobs = [best_effort(f"j{number}", LINEAR, 1e9, submitted=-number) for number in range(4)]
    view = snapshot(jobs, 32, sizes=SIZES)
    for policy in (BFTrainer(max_trainers=2), BFTrainerEqualShare(max_trainers=2)):
        assert given_to(policy, view) == [0, 0, 8, 8]
    running = replace(view, held_workers=np.array([1, 0, 0, 0]))  # it has its place until it ends
    assert given_to(BFTrainer(max_trainers=2), running) == [8, 0, 0, 8]


def test_forward_time_follows_from_the_reclaims_that_were_seen() -> None:
    """Nodes stay for 200 s on average: half of them are gone after 139 s."""
    view = snapshot([], 20, num_borrowed=20)
    policy = BFTrainer(t_fwd_s=50.0, reclaim_share=0.5)
    assert policy.forward_s(view) == 50.0  # none was seen yet
    seen = replace(view, reclaims_per_node_s=1 / 200.0)
    assert policy.forward_s(seen) == pytest.approx(200.0 * np.log(2.0))
    assert BFTrainer(t_fwd_s=50.0).forward_s(seen) == 50.0


# The heuristic


@given(
    num_devices=st.integers(0, 40),
    held=st.lists(st.integers(0, 8), min_size=1, max_size=6),
)
def test_shares_are_equal_but_for_the_remainder(num_devices: int, held: list[int]) -> None:
    """Whatever is held: the heuristic knows no cost."""
    jobs = [
        best_effort(f"j{number}", LINEAR, 1e9, held=size, submitted=-10.0 + number)
        for number, size in enumerate(held)
    ]
    counts = given_to(BFTrainerEqualShare(), snapshot(jobs, num_devices, sizes=SIZES))
    share, rest = divmod(num_devices, len(held))
    assert sum(counts) == min(num_devices, 8 * len(held))
    if share >= 8:
        assert counts == [8] * len(held)
    elif share + rest <= 8:
        assert counts == [share + rest, *[share] * (len(held) - 1)]
