"""Policies that are made for long queues decide as plain versions of them do, which are easier to read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policies.snapshots import snapshots

from swell.arrays import IntArray
from swell.model.snapshot import Snapshot
from swell.policies.equal_share import EqualShare
from swell.policies.levels import useful_levels
from swell_papers.policies.bftrainer_equal_share import BFTrainerEqualShare


def plain_division(view: Snapshot, spread_remainder: int) -> list[int]:
    """Workers by `bftrainer_equal_share`, one job after another."""
    options, left = view.options, view.num_devices
    trainers = [row for row in view.arrival_order.tolist() if options.num[row] > 0]
    share, workers = left // max(len(trainers), 1), [0] * view.num_jobs
    for turn in range(2):
        for row in trainers:
            per_worker = int(view.devices_per_worker[row])
            sizes = options.workers[options.starts[row] : options.starts[row + 1]].tolist()
            remainder = left if not spread_remainder else per_worker * (1 if workers[row] else sizes[0])
            most = workers[row] + min(remainder if turn else share, left) // per_worker
            given = max([size for size in sizes if size <= most], default=workers[row])
            left -= (given - workers[row]) * per_worker
            workers[row] = given
    return workers


def plain_equal_share(view: Snapshot) -> list[int]:
    """Workers by `equal_share`, size by size."""
    levels = useful_levels(view)
    order = [row for row in view.arrival_order.tolist() if levels.num[row] > 0]
    share = view.num_devices // max(1, len(order))
    level = np.zeros(view.num_jobs, dtype=np.int64)
    for row in order:
        level[row] = sum(levels.devices[row, : levels.num[row]] <= share)
    for most in range(1, levels.highest + 1):
        for row in [row for row in order if level[row] == most - 1 and levels.num[row] >= most]:
            level[row] = most
            if int(levels.devices_at(level).sum()) > view.num_devices:
                level[row] = most - 1
    workers: IntArray = levels.workers_at(level)
    return [int(one) for one in workers]


@pytest.mark.slow
@given(view=snapshots(), spread_remainder=st.integers(0, 1))
def test_a_division_between_trainers(view: Snapshot, spread_remainder: int) -> None:
    answer = BFTrainerEqualShare(spread_remainder=spread_remainder).decide(view)
    assert answer.workers.tolist() == plain_division(view, spread_remainder)


@given(view=snapshots())
def test_an_equal_share(view: Snapshot) -> None:
    assert EqualShare().decide(view).workers.tolist() == plain_equal_share(view)
