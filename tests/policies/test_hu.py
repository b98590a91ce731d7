"""Hu et al.: what their allocator promises."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tests.policies.asked import Asked
from tests.policies.snapshots import Job, best_effort
from tests.solvers.horizons import SIZES, speed

from swell.policies.hu import Hu
from swell_papers.policies.hu_greedy import HuGreedy

#: Steps of a second on one worker: sizes are 1 to 16 (Figure 6).
CURVE = dict(zip(SIZES.tolist(), speed(SIZES).tolist(), strict=True))
PERIOD_S = 300.0


def job(name: str, minutes: float, submitted: float = 0.0) -> Job:
    """Of so many minutes on one worker."""
    return best_effort(name, CURVE, 60.0 * minutes, submitted=submitted)


def value_of(remaining_min: list[float], plan: tuple[tuple[int, ...], ...]) -> float:
    """Formula (1), of workers of each job in each step."""
    total = 0.0
    for minutes, workers in zip(remaining_min, plan, strict=True):
        gains = [PERIOD_S / 60.0 * CURVE[one] / minutes if one else 0.0 for one in workers]
        total += float(np.minimum(np.cumsum(gains), 1.0).sum())
    return total


def best_first_steps(remaining_min: list[float], num_nodes: int, num_steps: int) -> set[tuple[int, ...]]:
    """All first steps of the best plans in which every job has a node until it ends."""
    sizes = [one for one in (0, *CURVE) if one <= num_nodes]
    each = [list(product(sizes, repeat=num_steps)) for _ in remaining_min]
    found: dict[tuple[int, ...], float] = {}
    for plan in product(*each):
        if max(map(sum, zip(*plan, strict=True))) > num_nodes or not _keeps_minimums(remaining_min, plan):
            continue
        first = tuple(one[0] for one in plan)
        found[first] = max(found.get(first, 0.0), value_of(remaining_min, plan))
    best = max(found.values())
    return {first for first, value in found.items() if value > best - 1e-9}


def _keeps_minimums(remaining_min: list[float], plan: tuple[tuple[int, ...], ...]) -> bool:
    for minutes, workers in zip(remaining_min, plan, strict=True):
        left = minutes
        for one in workers:
            if left > 1e-9 and not one:
                return False
            left -= PERIOD_S / 60.0 * CURVE[one] if one else 0.0
    return True


@pytest.mark.parametrize("seed", range(6))
def test_the_first_step_is_that_of_a_best_plan(seed: int) -> None:
    """Formula (1), constraints (2) to (11); nodes that it leaves idle are used as well."""
    draw = np.random.default_rng(seed)
    minutes = draw.uniform(5.0, 120.0, 2 + seed % 2).tolist()
    jobs = [job(f"j{row}", one) for row, one in enumerate(minutes)]
    policy = Hu(horizon_steps=3 - seed % 2)
    workers = Asked(policy, 4 + seed).at(0.0, jobs)
    firsts = best_first_steps(minutes, 4 + seed, 3 - seed % 2)
    assert any(all(has >= planned for has, planned in zip(workers, one, strict=True)) for one in firsts)


def test_between_decisions_released_nodes_go_to_the_front_of_the_queue_and_no_other_job_changes() -> None:
    """Figure 8: job 2 waits since 9:01:02, and has the 8 nodes that job 1 leaves at 9:02:09."""
    asked = Asked(Hu(most_workers=8), 10)
    first, other = job("job-1", 100.0), job("other", 30_000.0)
    assert asked.at(0.0, [first, other]) == [8, 2]
    second, third = job("job-2", 100.0, submitted=62.0), job("job-3", 100.0, submitted=70.0)
    assert asked.at(62.0, [first, other, second]) == [8, 2, 0]
    assert asked.at(70.0, [first, other, second, third]) == [8, 2, 0, 0]
    assert asked.at(130.0, [other, second, third]) == [2, 8, 0]
    assert asked.at(200.0, [other, third]) == [2, 8]
    assert asked.at(299.0, [other]) == [2]
    assert asked.at(300.0, [other]) == [8]  # the next decision


def test_with_more_minimums_than_nodes_the_first_to_arrive_have_theirs() -> None:
    jobs = [job(f"j{row}", 100.0 - row, submitted=float(-row)) for row in range(6)]
    assert Asked(Hu(), 4).at(0.0, jobs) == [0, 0, 1, 1, 1, 1]


def test_a_worker_can_be_a_node_of_eight_devices() -> None:
    """Section 2: one node has 8 GPUs, and sizes are nodes."""
    jobs = [replace(job(f"j{row}", 1000.0 + row), devices_per_worker=8) for row in range(3)]
    nodes = [replace(one, devices_per_worker=1) for one in jobs]
    for policy in (Hu, HuGreedy):
        workers = Asked(policy(), 8 * 14 + 7).at(0.0, jobs)
        assert workers == Asked(policy(), 14).at(0.0, nodes) and sum(workers) == 14


def test_what_is_done_early_counts_more_unless_only_the_end_does() -> None:
    """Formula (1) sums over the steps what was done until then; the text has the end only."""
    jobs = [job("shortest", 6.0), job("short", 32.0), job("long", 120.0)]
    assert Asked(Hu(horizon_steps=3), 8).at(0.0, jobs) == [2, 4, 2]
    assert Asked(Hu(horizon_steps=3, horizon_end=1), 8).at(0.0, jobs) == [2, 2, 4]


def test_a_job_outside_the_limits_has_the_nearest_size() -> None:
    wide = replace(best_effort("wide", {8: 3.0}, 6000.0), submitted=0.0)
    narrow = replace(best_effort("narrow", {1: 1.0}, 6000.0), submitted=0.0)
    assert Asked(Hu(most_workers=4), 9).at(0.0, [wide]) == [8]
    assert Asked(Hu(least_workers=2), 9).at(0.0, [narrow]) == [1]
