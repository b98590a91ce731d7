"""BFTrainer's objective as an expression, and what a priority score makes of it."""

from __future__ import annotations

from typing import Unpack

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import pick, share_of_examples
from tests.policies.snapshots import MoreOfJob, best_effort, snapshot, snapshots
from tests.policies.test_laws import same

from swell.model.snapshot import Snapshot
from swell.policies.bftrainer import QUANTITIES, BFTrainer, CorrectedBFTrainer
from swell.settings import InvalidSetting, make_settings, parse_setting

#: One scales badly, and is fast on one worker; the other scales well.
FAST = {1: 10.0, 2: 12.0, 4: 13.0, 8: 13.5}
SCALES = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}


def given_by(objective: str, **more: Unpack[MoreOfJob]) -> list[int]:
    jobs = [best_effort("fast", FAST, 1e6), best_effort("scales", SCALES, 1e6, **more)]
    return list(BFTrainer(objective=objective).decide(snapshot(jobs, 8)).workers.tolist())


@settings(max_examples=share_of_examples(0.5))
@given(view=snapshots(), kind=st.sampled_from([BFTrainer, CorrectedBFTrainer]), forward_s=pick(5.0, 120.0))
def test_the_two_printed_metrics_are_expressions(
    view: Snapshot, kind: type[BFTrainer], forward_s: float
) -> None:
    for objective, share in (("throughput", 0.0), ("speedup", 1.0)):
        told = kind(t_fwd_s=forward_s, objective=objective)
        values = told.values(view, view.held_workers >= 0, forward_s)
        printed = kind(t_fwd_s=forward_s, efficiency_share=share)
        for one, other in zip(values, printed.values(view, view.held_workers >= 0, forward_s), strict=True):
            assert one == pytest.approx(other, rel=1e-9)


@given(view=snapshots(), name=st.sampled_from(sorted(QUANTITIES)))
def test_every_quantity_can_be_an_objective(view: Snapshot, name: str) -> None:
    policy = BFTrainer(objective=f"{name} / (1 + {name})")
    assert same(policy.decide(view), policy.decide(view))


def test_a_priority_score_decides_what_throughput_would_not() -> None:
    assert given_by("throughput") == [4, 4]
    assert given_by("speedup") == [0, 8]
    assert given_by("throughput * 10 ^ priority", priority=2)[1] == 8
    assert given_by("weight * throughput", weight=100.0) == [0, 8]
    assert given_by("min(devices, 2) * throughput / nodes")[0] >= 1


def test_a_size_at_which_it_is_no_number_is_worth_nothing() -> None:
    assert given_by("throughput / (workers - 4) ^ 2 / (workers - 2) ^ 2 / (workers - 1) ^ 2") in (
        [8, 0],
        [0, 8],
    )
    assert given_by("log(-throughput)") == given_by("0 * throughput")


def test_the_objective_is_set_as_other_parameters_are() -> None:
    told = parse_setting("bftrainer.objective=weight * throughput / nodes")
    made = make_settings(dict([told, ("bftrainer.t_fwd_s", 60.0)]))
    again = msgspec.json.decode(msgspec.json.encode(made), type=type(made))
    assert again.parameters_of("bftrainer") == {"objective": "weight * throughput / nodes", "t_fwd_s": 60.0}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("bftrainer.objective=weight *", "at character 9 of 'weight *': the end stands where a number"),
        (
            "bftrainer.objective=wait",
            "at character 1 of 'wait': wait is no known quantity; choose from age_s",
        ),
        ("bftrainer.t_fwd_s=throughput", "'throughput' is not a number"),
        ("saxena.objective=throughput", "'throughput' is not a number"),
    ],
)
def test_an_objective_that_cannot_be_is_refused_with_its_place(said: str, why: str) -> None:
    with pytest.raises(InvalidSetting, match=r"bftrainer|saxena") as error:
        make_settings(dict([parse_setting(said)]))
    assert why in str(error.value)


def test_two_objectives_are_one_too_many() -> None:
    with pytest.raises(ValueError, match="objective and efficiency_share are two objectives; leave one out"):
        BFTrainer(objective="throughput", efficiency_share=0.5)
