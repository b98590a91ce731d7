"""Shortest remaining time first, and the sizes of schedulers without elasticity."""

from __future__ import annotations

from tests.policies.fluid import follow
from tests.policies.snapshots import best_effort, snapshot

from swell.policies.flowcon import requested_levels
from swell_papers.policies.srtf import Srtf

LINEAR = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}


def test_on_one_device_the_average_completion_time_is_the_least() -> None:
    work = {"a": 5.0, "b": 1.0, "c": 3.0}
    run = follow(
        Srtf(),
        [best_effort(name, {1: 1.0}, steps, submitted=0.0) for name, steps in work.items()],
        1,
        margin_share=0.0,
        min_hold_s=0.0,
    )
    assert run.finished == {"b": 1.0, "c": 4.0, "a": 9.0}


def test_a_size_is_what_was_asked_for_even_if_it_is_slow_or_the_next_below_or_the_smallest() -> None:
    jobs = [
        best_effort("slow", {1: 2.0, 2: 3.0, 4: 2.5}, 8, requested=4),
        best_effort("no power of two", LINEAR, 8, requested=7),
        best_effort("less than it may have", {4: 1.0, 8: 2.0}, 8, requested=2),
        best_effort("more than there is", LINEAR, 8, requested=64),
        best_effort("fits nowhere", {4: 1.0}, 8, requested=4, devices_per_worker=3),
        best_effort("more devices each", LINEAR, 8, requested=4, devices_per_worker=3),
    ]
    levels = requested_levels(snapshot(jobs, 8))
    assert levels.workers[:, 0].tolist() == [4, 4, 4, 8, 0, 2]
    assert levels.devices[:, 0].tolist() == [4, 4, 4, 8, 0, 6]
    assert levels.rates[:, 0].tolist() == [2.5, 4.0, 1.0, 8.0, 0.0, 2.0]
    assert levels.num.tolist() == [1, 1, 1, 1, 0, 1]
