"""What `flowcon_fit` is for: usable models sooner, and no job much later than with equal shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.policies.shared_cores import (
    Family,
    constant,
    exponential,
    hyperbola,
    plateau_first,
    rising,
    share_cores,
    some_learners,
    two_falls,
)
from tests.policies.snapshots import best_effort, snapshot, texts

from swell.core.last_plan import PolicyState
from swell.policies.flowcon_fit import FlowConFit

EVERY_FAMILY: Sequence[Family] = (exponential, hyperbola, plateau_first, two_falls, constant, rising)


def ratios(seeds: range, families: Sequence[Family], num_jobs: int, noise: float, cores: float) -> np.ndarray:
    """(S, 4) over equal shares, as `Outcome.over` has them. On average a job comes 20 s after another."""
    rows = []
    for seed in seeds:
        jobs = some_learners(seed, families, num_jobs, window_s=20.0 * num_jobs, noise=noise)
        rows.append(share_cores(FlowConFit(), jobs, cores, seed).over(share_cores(None, jobs, cores, seed)))
    return np.array(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("families", "noise", "cores"),
    [((exponential,), 0.0, 1.0), (EVERY_FAMILY, 0.02, 1.0), (EVERY_FAMILY, 0.02, 2.0)],
)
@pytest.mark.parametrize("num", [6, pytest.param(10, marks=pytest.mark.soak)])
def test_models_are_usable_sooner_and_no_job_is_a_third_later(
    num: int, families: Sequence[Family], noise: float, cores: float
) -> None:
    """So many jobs that arrive at random, as many times: the interval of the mean excludes 0.97."""
    mean_jct, worst, makespan, usable = ratios(range(900, 900 + num), families, num, noise, cores).T
    assert usable.mean() + 2.0 * usable.std() / math.sqrt(len(usable)) < 0.97
    assert worst.max() <= 1.3
    assert mean_jct.mean() < 0.97
    assert makespan.max() <= 1.05 and makespan.mean() <= 1.02


class Node:
    """One node; each job is told how much CPU time it has used and what its loss is."""

    def __init__(self, policy: FlowConFit | None = None) -> None:
        self.policy, self.state, self.now_s = policy or FlowConFit(), PolicyState(), 0.0
        self.shares: list[list[float]] = []
        self.codes: list[str] = []
        self.texts: list[str] = []

    def tell(self, *jobs: tuple[float, float], told_s: float | None = None) -> float:
        """(loss, CPU s) of each, of 100 CPU s of work; returns the time until the policy asks again.

        `told_s` None: losses are told now.
        """
        value_at = 0.0 if told_s is None else told_s - self.now_s
        rows = [
            best_effort(
                f"j{at}",
                {1: 1.0},
                101.0 - cpu_s,
                done=cpu_s,
                held=1,
                value=loss,
                value_at=value_at,
                cpu=cpu_s,
            )
            for at, (loss, cpu_s) in enumerate(jobs)
        ]
        self.state.begin("flowcon_fit", self.now_s)
        view = snapshot(rows, 10, now_s=self.now_s, cores=1.0)
        answer = self.policy.decide(replace(view, memory=self.state.memory))
        self.state.end(answer.memory, math.inf)
        assert answer.share is not None
        self.shares.append(answer.share.tolist())
        self.codes, self.texts = list(answer.account.codes), texts(answer)
        waits_s = answer.wake_s - self.now_s
        self.now_s = answer.wake_s
        return waits_s


def test_a_job_that_learns_again_gets_the_cores_of_one_that_does_not() -> None:
    """Both are past their first fall; the learning rate of one drops at 60 CPU seconds."""
    node = Node()
    for cpu_s in range(0, 72, 2):
        first = math.exp(-cpu_s / 5.0)
        again = 0.5 * (1.0 - math.exp(-max(cpu_s - 60.0, 0.0) / 20.0))
        node.tell((first - again, float(cpu_s)), (first, float(cpu_s)))
    before, after = node.shares[30], node.shares[-1]
    assert before[0] == before[1]
    assert after[0] == 1.0 and after[1] <= 0.25


def test_a_job_that_is_past_its_drop_yields_to_one_that_is_not() -> None:
    node = Node()
    for cpu_s in range(40):
        node.tell((math.exp(-cpu_s / 5.0), float(cpu_s)), (math.exp(-cpu_s / 20.0), float(cpu_s)))
    assert node.shares[-1][0] <= 0.25 and node.shares[-1][1] == 1.0
    assert "100 % of the predicted drop" in node.texts[0] and "other jobs gain more" in node.texts[0]


def test_shares_do_not_flap_with_noise() -> None:
    """Two equal jobs, 5 % noise: in forty decisions each share changes a few times."""
    rng, node = np.random.default_rng(1), Node()
    for turn in range(40):
        noise = 0.05 * rng.standard_normal(2)
        node.tell(*((math.exp(-turn / 20.0) + noise[at], float(turn)) for at in range(2)))
    changes = (np.diff(np.array(node.shares), axis=0) != 0.0).sum(axis=0)
    assert changes.max() <= 10


def test_the_back_off_is_capped_and_ends_with_an_arrival() -> None:
    node = Node()
    waits_s = [node.tell((math.exp(-turn), 2.0 * turn)) for turn in range(40)]
    assert waits_s[0] == 5.0 and max(waits_s) == waits_s[-1] == 40.0
    node.now_s -= 35.0
    assert node.tell((0.0, 81.0), (1.0, 0.0)) == 5.0


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.25))
@given(
    starts_s=st.lists(st.floats(0.0, 40.0), min_size=1, max_size=12),
    interval_s=st.sampled_from([0.5, 5.0, 7.0]),
)
def test_more_nodes_are_no_reason_to_be_asked_more_often(starts_s: list[float], interval_s: float) -> None:
    """One job on each node, from its own instant on: the policy is asked when one starts, and on one grid."""
    policy, state, now_s, asked_s = FlowConFit(interval_s=interval_s), PolicyState(), 0.0, []
    coming = sorted({*starts_s})
    while now_s < 80.0:
        rows = [
            best_effort(f"j{at}", {1: 1.0}, 1e4, held=1, node=at, value=math.exp(start_s - now_s), cpu=0.1)
            for at, start_s in enumerate(starts_s)
            if start_s <= now_s
        ]
        state.begin(policy.name, now_s)
        view = snapshot(rows, 99, now_s=now_s, cores=1.0)
        answer = policy.decide(replace(view, memory=state.memory))
        state.end(answer.memory, math.inf)
        asked_s.append(now_s)
        now_s = min([answer.wake_s, *(start_s for start_s in coming if start_s > now_s)])
    alone_s = [at_s for at_s in asked_s if at_s not in coming and at_s > 0.0]
    assert all(at_s % interval_s == 0.0 for at_s in alone_s)
    assert len(alone_s) <= 80.0 / interval_s


@pytest.mark.parametrize(
    ("loss", "code", "text"),
    [
        (lambda turn: math.nan, "blind", "not a finite number"),
        (lambda turn: 3.0, "flat", "has not improved since it is measured, where it is to go down"),
        (lambda turn: 3.0 + turn, "flat", "has not improved"),
        (lambda turn: 1e308 * (-1.0) ** turn, "sharing", ""),
    ],
)
def test_a_job_that_is_not_seen_to_learn_has_an_equal_part_and_is_told(
    loss: Callable[[int], float], code: str, text: str
) -> None:
    node = Node()
    for turn in range(30):
        node.tell((loss(turn), 2.0 * turn), *((math.exp(-turn / 30.0), 2.0 * turn),) * 3)
    assert node.shares[-1][0] >= 0.25 or not text
    assert node.codes[0] == code and text in node.texts[0]
