"""What the policies without promises do."""

from __future__ import annotations

import numpy as np
from tests.policies.snapshots import best_effort, snapshot

from swell.policies.levels import useful_levels

PEAK_AT_2 = {1: 1.0, 2: 1.8, 4: 1.5}


def test_useful_levels_stop_at_the_peak_and_skip_what_brings_nothing() -> None:
    curves = [PEAK_AT_2, {1: 1.0, 2: 1.0, 4: 2.0}, {4: 1.0, 8: 2.0}, {1: 3.0}]
    jobs = [best_effort(str(number), curve, 1, held=4) for number, curve in enumerate(curves)]
    levels = useful_levels(snapshot(jobs, 4))
    assert [row[:num].tolist() for row, num in zip(levels.workers, levels.num, strict=True)] == [
        [1, 2],
        [1, 4],
        [4],
        [1],
    ]
    assert levels.held.tolist() == [2, 2, 1, 1]
    assert levels.rates_at(np.array([2, 1, 0, 1])).tolist() == [1.8, 1.0, 0.0, 3.0]
    assert levels.workers_at(np.array([2, 2, 0, 1])).tolist() == [2, 4, 0, 1]


def test_the_resource_usage_of_figure_4_rises_with_the_devices() -> None:
    """ElasticFlow, section 4.1: devices times the time for one unit of work."""
    levels = useful_levels(snapshot([best_effort("c", {1: 1.0, 2: 1.5, 4: 2.0}, 1)], 4))
    usage = levels.devices[0] / levels.rates[0]
    assert usage.tolist() == [1.0, 2 / 1.5, 2.0]
