"""BFTrainer's map of nodes to trainers: the solver beside HiGHS on the paper's model, and whole turns."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from functools import partial

import msgspec
import numpy as np
from tests.policies.bftrainer_milp import NodeProblem, solve_nodes
from tests.solvers.plain_knapsack import Knapsack

from benchmarks.crowd import LARGEST, Crowd, Mix, TableBelief
from benchmarks.solvers.knapsacks import timed
from benchmarks.solvers.measured import Row, rival_of
from swell.arrays import FloatArray
from swell.core.core import Core
from swell.core.core_settings import CoreSettings
from swell.core.planner import Planner
from swell.model.event import AnyEvent, NodeJoined, NodeLost
from swell.model.node import Node
from swell.placement.best_fit import BestFitPlacer
from swell.policies.registry import new_policy

#: Trainers, nodes: a grid as in Figure 5, whose largest number of nodes is 800, and a size beyond it.
SIZES = (*((jobs, nodes) for nodes in (100, 200, 400, 800) for jobs in (5, 10, 20, 30)), (1000, 10_000))
#: HiGHS is not given more pairs of trainer and node than this.
MOST_PAIRS_OF_HIGHS = 30_000
#: To which HiGHS solves the paper's model, and its big M: more than twice the nodes.
RIVAL_GAP_SHARE, BIG_M = 1e-4, 2.5
#: Nodes of the largest trainer, and seconds that a map is expected to last.
MOST_NODES, FORWARD_S = 64, 120.0
#: Turns before the first that counts.
NUM_WARM_UP, NUM_TURNS = 8, 100


def bftrainer_rows(num_instances: int, num_rival: int, limit_s: float) -> Iterator[Row]:
    """Rows of all sizes; HiGHS has so many seconds for each map."""
    for num_jobs, num_nodes in SIZES:
        some = [_problem(num_jobs, num_nodes, seed) for seed in range(num_instances)]
        answers = [timed(_counts(problem)) for problem in some]
        is_feasible = num_jobs * num_nodes <= MOST_PAIRS_OF_HIGHS
        calls = (
            partial(solve_nodes, problem, BIG_M * num_nodes, RIVAL_GAP_SHARE, limit_s)
            for problem in some[: num_rival * is_feasible]
        )
        yield Row(
            problem="BFTrainer",
            size=f"J={num_jobs:,} N={num_nodes:,}",
            ours="kernel",
            ours_ms=tuple(spent_ms for _, spent_ms in answers),
            values=tuple(best.value for best, _ in answers),
            rival=rival_of(f"HiGHS, paper's model, gap {RIVAL_GAP_SHARE:g}", calls),
        )
    for num_jobs, num_nodes in SIZES[-2:]:
        yield Row(
            problem="BFTrainer",
            size=f"J={num_jobs:,} N={num_nodes:,}",
            ours="turn, a node leaves or joins",
            ours_ms=tuple(_turns_ms(num_jobs, num_nodes)),
        )


def _problem(num_jobs: int, num_nodes: int, seed: int) -> NodeProblem:
    """Trainers that scale differently, with about equal shares now, some of them waiting."""
    draw, sizes = np.random.default_rng(seed), np.arange(num_nodes + 1)
    most = min(MOST_NODES, num_nodes)
    metric: list[FloatArray] = []
    held = np.zeros((num_jobs, num_nodes), dtype=bool)
    end = 0
    for job in range(num_jobs):
        per_s = np.power(sizes, draw.uniform(0.5, 0.97)) * float(draw.uniform(1e3, 1e4))
        metric.append(np.where(sizes <= most, per_s, 0.0))
        present = int(np.clip(draw.normal(1.0, 0.4) * num_nodes / num_jobs, 0, min(most, num_nodes - end)))
        held[job, end : end + present] = True
        end += present
    return NodeProblem(
        held=held,
        least=(1,) * num_jobs,
        most=(most,) * num_jobs,
        metric=tuple(metric),
        up_s=tuple(draw.uniform(5.0, 60.0, num_jobs).tolist()),
        down_s=tuple(draw.uniform(1.0, 20.0, num_jobs).tolist()),
        forward_s=FORWARD_S,
    )


def _counts(problem: NodeProblem) -> Knapsack:
    """Equation 16 by counts."""
    values, nothing = [], []
    sizes = np.arange(1, problem.most[0] + 1)
    for job, metric in enumerate(problem.metric):
        present = int(problem.held[job].sum())
        up, down = problem.up_s[job] * (sizes > present), problem.down_s[job] * (sizes < present)
        values.append(problem.forward_s * metric[sizes] - metric[present] * (up + down))
        nothing.append(-metric[present] * problem.down_s[job])
    return Knapsack(
        starts=np.arange(len(values) + 1) * len(sizes),
        devices=np.tile(sizes, len(values)),
        value=np.concatenate(values),
        nothing=np.array(nothing),
        num_devices=problem.held.shape[1],
    )


def _turns_ms(num_jobs: int, num_nodes: int) -> Iterator[float]:
    """CPU time of the scheduler, from a node that leaves or joins to the commands."""
    crowd = Crowd(Mix(strict_share=0.0, soft_share=0.0), seed=0)
    core = Core(Planner(new_policy("bftrainer"), BestFitPlacer()), TableBelief(crowd.members), CoreSettings())
    there = [_node(number) for number in range(num_nodes)]
    crowd.perform(core.handle([NodeJoined(at_s=crowd.now_s, node=node) for node in there]))
    arrivals = [
        msgspec.structs.replace(event, spec=msgspec.structs.replace(event.spec, max_workers=LARGEST))
        for event in crowd.newcomers(num_jobs, num_nodes)
    ]
    crowd.perform(core.handle(arrivals))
    while crowd.has_answers:
        crowd.perform(core.handle(crowd.next_events()))
    gc.collect()
    for number in range(NUM_TURNS + NUM_WARM_UP):
        node = there[(37 * (number // 2)) % num_nodes]
        crowd.now_s += 0.01
        event: AnyEvent = NodeJoined(at_s=crowd.now_s, node=node)
        if number % 2 == 0:
            event = NodeLost(at_s=crowd.now_s, name=node.name)
        began_s = time.thread_time()
        commands = core.handle([event])
        if number >= NUM_WARM_UP:
            yield 1e3 * (time.thread_time() - began_s)
        crowd.perform(commands)


def _node(number: int) -> Node:
    return Node(name=f"n{number:05d}", devices=(f"n{number:05d}.0",), kind="gpu", rack=f"r{number // 16:03d}")
