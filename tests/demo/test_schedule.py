from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.demo.views import make_view

import swell.demo
from swell.demo.digits import digits
from swell.demo.jobs import (
    CAST,
    CNN,
    GRU,
    NUM_DEVICES,
    PACE_PER_S,
    SECOND_TRY_SLACK_S,
    TRANSFORMER,
    VAE,
    DemoJob,
    DemoSchedule,
)
from swell.demo.text import sequences
from swell.model.job import Phase

PROMISED = [part for part in CAST if part.deadline_after_s and not (part.is_soft or part.second_try)]
REFUSED = [part for part in CAST if part.second_try]
START_S = 5.0  # a profile run and a start, generously


SAMPLES_PER_EPOCH = {CNN: 1437, VAE: 1437, GRU: 4096, TRANSFORMER: 4096}


def work_device_s(part: DemoJob) -> float:
    """Seconds the job takes on one paced device."""
    return part.epochs * SAMPLES_PER_EPOCH[part.script] / PACE_PER_S


def least_s(part: DemoJob) -> float:
    """Time the part takes on the whole cluster, once it has started."""
    return work_device_s(part) / NUM_DEVICES


def test_the_cast_is_what_the_demo_is_to_show() -> None:
    assert len(CAST) >= 6
    assert any(part.is_soft for part in CAST)
    assert any(part.deadline_after_s is None for part in CAST)
    assert len(PROMISED) >= 2
    assert len(REFUSED) == 1
    assert {part.script for part in CAST} == {CNN, VAE, GRU, TRANSFORMER}
    assert max(part.at_s for part in CAST) <= 60
    names = [part.name for part in CAST] + [str(part.second_try) for part in REFUSED]
    assert len(set(names)) == len(names)


def test_the_whole_work_fits_into_the_time_of_the_demo() -> None:
    assert sum(map(work_device_s, CAST)) / NUM_DEVICES < 110


def test_no_part_that_must_be_refused_could_be_kept() -> None:
    for part in REFUSED:
        assert part.deadline_after_s is not None
        assert least_s(part) > part.deadline_after_s


def test_promises_can_be_kept_together() -> None:
    """In every window between a submission and a deadline the promises due in it need at most 2/3 of it."""
    windows = [(part.at_s + START_S, part.at_s + (part.deadline_after_s or 0)) for part in PROMISED]
    for begin_s in (begin for begin, _ in windows):
        for end_s in (end for _, end in windows if end > begin_s):
            inside = [
                work_device_s(part)
                for part, (begin, end) in zip(PROMISED, windows, strict=True)
                if begin >= begin_s and end <= end_s
            ]
            assert sum(inside) <= 2 / 3 * NUM_DEVICES * (end_s - begin_s)


def test_some_promise_needs_several_devices() -> None:
    needs = [work_device_s(part) / ((part.deadline_after_s or 0) - START_S) for part in PROMISED]
    assert max(needs) > 1.5  # one would be far too slow


def test_scripts_are_there() -> None:
    folder = Path(swell.demo.__file__).parent
    assert all((folder / part.script[0]).is_file() for part in CAST)


def test_epochs_are_as_long_as_the_schedule_counts_on() -> None:
    assert len(digits()[0]) == SAMPLES_PER_EPOCH[CNN] == SAMPLES_PER_EPOCH[VAE]
    assert len(sequences(4096, 32)[0]) == SAMPLES_PER_EPOCH[GRU] == SAMPLES_PER_EPOCH[TRANSFORMER]


def test_text_too_long_for_this_python_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="ask for fewer sequences"):
        sequences(10_000_000, 32)


def test_answers_are_the_text_moved_on_by_one() -> None:
    training, inputs, answers = sequences(8, 16)
    x, y = training.tensors
    assert x.flatten()[1:].tolist() == y.flatten()[:-1].tolist()
    assert inputs.flatten()[1:].tolist() == answers.flatten()[:-1].tolist()


@given(st.lists(st.floats(0, 120), max_size=30))
def test_each_part_is_submitted_once_and_never_early(looks: list[float]) -> None:
    schedule, first = DemoSchedule(CAST), CAST[0]
    submitted = [part for part, _ in schedule.due(900.0, [])]
    assert submitted == [first]
    for reason in ("submitted", "profiling", "trial_lost"):
        assert schedule.due(990.0, [make_view(first.name, phase=Phase.QUEUED, reason_code=reason)]) == []
    views = [make_view(first.name, phase=Phase.RUNNING)]
    for after_s in [0.0, *sorted(looks), 120.0]:
        for part, deadline_s in schedule.due(1000.0 + after_s, views):
            assert part.at_s <= after_s
            if part.deadline_after_s is None:
                assert deadline_s is None
            else:
                assert deadline_s == 1000.0 + after_s + part.deadline_after_s
            submitted.append(part)
    assert submitted == list(CAST)
    assert all(before.at_s <= after.at_s for before, after in pairwise(submitted))


def test_a_refused_part_comes_again_once_by_the_offer() -> None:
    (part,) = REFUSED
    schedule = DemoSchedule([part])
    schedule.due(1000.0 + part.at_s, [])
    views = [make_view(part.name, phase=Phase.REJECTED, counter_offer_s=1077.0)]
    ((again, deadline_s),) = schedule.due(1030.0, views)
    assert (again.name, deadline_s) == (part.second_try, 1077.0 + SECOND_TRY_SLACK_S)
    assert schedule.due(1031.0, views) == []
    assert not schedule.is_over(views)
    assert schedule.is_over([*views, make_view(again.name)])
    assert set(schedule.played) == {part.name, part.second_try}


@pytest.mark.parametrize(
    "shown",
    [
        {"phase": Phase.REJECTED},
        {"phase": Phase.SUCCEEDED},
        {"phase": Phase.FAILED, "counter_offer_s": 1077.0},
    ],
)
def test_without_a_refusal_and_an_offer_there_is_no_second_try(shown: dict[str, Any]) -> None:
    (part,) = REFUSED
    schedule = DemoSchedule([part])
    schedule.due(1000.0 + part.at_s, [])
    views = [make_view(part.name, **shown)]
    assert schedule.due(1030.0, views) == []
    assert schedule.is_over(views)
