"""What the policies without promises do."""

from __future__ import annotations

import numpy as np
from tests.policies.snapshots import NOW_S, best_effort, snapshot

from swell.policies.equal_share import EqualShare
from swell.policies.fifo import Fifo
from swell.policies.levels import useful_levels

LINEAR = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}
PEAK_AT_2 = {1: 1.0, 2: 1.8, 4: 1.5}


def test_fifo_gives_in_order_of_arrival_the_most_that_helps_and_fits() -> None:
    jobs = [
        best_effort("third", LINEAR, 8, submitted=-1),
        best_effort("first", PEAK_AT_2, 9, submitted=-3),
        best_effort("second", LINEAR, 8, submitted=-2),
    ]
    assert Fifo().decide(snapshot(jobs, 8)).workers.tolist() == [2, 2, 4]
    answer = Fifo().decide(snapshot(jobs, 3))
    assert answer.workers.tolist() == [0, 2, 1]
    # Second ends after 8 s, first after 5: then the third starts on its smallest size.
    assert answer.account.forecast.finish_s.tolist() == [NOW_S + 13, NOW_S + 5, NOW_S + 8]


def test_nobody_overtakes_the_head_of_the_fifo_queue_but_one_that_fits_nowhere_is_passed_over() -> None:
    wide, narrow = {4: 1.0}, {1: 1.0}
    jobs = [
        best_effort("a", {2: 1.0}, 1, submitted=-4),
        best_effort("b", wide, 1, submitted=-3),
        best_effort("c", narrow, 1, submitted=-2),
    ]
    answer = Fifo().decide(snapshot(jobs, 4))
    assert answer.workers.tolist() == [2, 0, 0]
    assert answer.account.codes == ["sharing", "waiting", "waiting"]
    answer = Fifo().decide(snapshot(jobs, 3))
    assert answer.workers.tolist() == [2, 0, 1]
    assert "add nodes" in answer.account.text(1)


def test_equal_share_divides_rounds_down_and_hands_leftovers_out_by_arrival() -> None:
    jobs = [best_effort(name, LINEAR, 8, submitted=-when) for name, when in (("a", 1), ("b", 3), ("c", 2))]
    workers = {num: EqualShare().decide(snapshot(jobs, num)).workers.tolist() for num in (1, 2, 3, 5, 8, 13)}
    assert workers == {
        1: [0, 1, 0],
        2: [0, 1, 1],
        3: [1, 1, 1],
        5: [1, 2, 2],
        8: [2, 4, 2],
        13: [4, 4, 4],
    }


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
