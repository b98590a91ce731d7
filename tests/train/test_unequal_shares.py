"""Workers get shares of a step by their speeds, and learn what a single process learns."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.train.curve_runs import CURVE
from tests.train.fake_agent import FakeAgent
from tests.train.test_proof import prove, witness

from swell.train.data.sample_schedule import SampleSchedule, Share
from swell.train.data.unequal_shares import LEAST_GAIN_SHARE, balanced, shares_of
from swell.train.runtime.share_balance import WINDOW_STEPS
from swell.wire import messages

WIDE = 24  #: samples of a step of `curve.py wide`, of which an epoch has two, the second of 21
PACE_PER_S = 240.0
EPOCHS = 80

speeds = st.floats(0.01, 1000.0)


def time_s(shares: tuple[int, ...], speeds: list[float]) -> float:
    return max(share / speed for share, speed in zip(shares, speeds, strict=True))


@given(st.lists(speeds, min_size=1, max_size=9), st.integers(1, 5000), st.integers(0, 3), st.data())
def test_shares_are_whole_within_bounds_and_never_less_for_a_faster_worker(
    speeds: list[float], batch: int, least: int, data: st.DataObject
) -> None:
    most = data.draw(st.integers(0, 2 * batch))
    shares = shares_of(speeds, batch, least, [most] * len(speeds))
    is_possible = least * len(speeds) <= batch <= most * len(speeds) and least <= most
    assert (shares is not None) == is_possible
    if shares is None:
        return
    assert sum(shares) == batch and all(least <= share <= most for share in shares)
    ordered = sorted(zip(speeds, shares, strict=True))
    for (slow, fewer), (fast, more) in pairwise(ordered):
        assert fewer <= more or slow == fast


@given(st.lists(speeds, min_size=1, max_size=4), st.integers(1, 12))
def test_no_other_division_ends_earlier(speeds: list[float], batch: int) -> None:
    shares = shares_of(speeds, batch, 0, [batch] * len(speeds))
    assert shares is not None
    others = (each for each in product(range(batch + 1), repeat=len(speeds)) if sum(each) == batch)
    assert time_s(shares, speeds) <= min(time_s(each, speeds) for each in others) * (1 + 1e-9)


@given(st.lists(speeds, min_size=2, max_size=9), st.integers(1, 500), st.data())
def test_shares_change_only_if_that_pays(speeds: list[float], each: int, data: st.DataObject) -> None:
    batch, bound = each * len(speeds), [each * len(speeds)] * len(speeds)
    present = tuple(data.draw(st.permutations([each] * len(speeds))))
    sample_s = [1.0 / speed for speed in speeds]
    shares = balanced(present, sample_s, 1, bound)
    best = shares_of(speeds, batch, 1, bound)
    assert shares == present or time_s(shares, speeds) < time_s(present, speeds) * (1.0 - LEAST_GAIN_SHARE)
    assert best is not None
    assert time_s(shares, speeds) * (1.0 - LEAST_GAIN_SHARE) <= time_s(best, speeds) * (1 + 1e-9)
    assert balanced(shares, sample_s, 1, bound) == shares
    assert balanced(present, [sample_s[0]] * len(speeds), 1, bound) == present
    assert balanced(present, [0.0] * len(speeds), 1, bound) == present


@given(st.lists(st.floats(1.0, 4.0), min_size=2, max_size=8), st.integers(4, 64), st.floats(0.0, 0.5))
def test_shares_come_to_rest_where_a_part_of_a_step_is_the_same_for_any_share(
    sample_s: list[float], each: int, fixed_share: float
) -> None:
    """Each worker takes `a + b * n` for n samples, of which only the sum is measured."""
    num, shares = len(sample_s), (each,) * len(sample_s)
    fixed = [fixed_share * each * one for one in sample_s]
    for _ in range(12):
        own_s = [a + b * n for a, b, n in zip(fixed, sample_s, shares, strict=True)]
        before, last_s = shares, max(own_s)
        shares = balanced(shares, [t / n for t, n in zip(own_s, shares, strict=True)], 1, [each * num] * num)
        if shares == before:
            break
    assert shares == before
    even_s = max(a + b * each for a, b in zip(fixed, sample_s, strict=True))
    assert last_s <= even_s * (1.0 + 1e-9)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=9), st.integers(0, 200), st.integers(0, 40), st.data()
)
def test_each_sample_is_trained_on_once_at_any_shares(
    shares: list[int], more: int, step: int, data: st.DataObject
) -> None:
    batch = sum(shares)
    course = SampleSchedule(batch + more, batch, data.draw(st.booleans()), False)
    course.is_stream = data.draw(st.booleans())
    course.least_samples, course.num_passes = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 2))
    whole = counted(course.share(step, 0, 1))
    equal = [course.share(step, rank, len(shares)).num_local for rank in range(len(shares))]
    course.shares = tuple(shares)
    parts = [course.share(step, rank, len(shares)) for rank in range(len(shares))]
    assert [index for part in parts for index in counted(part)] == whole
    sizes = [part.num_local for part in parts]
    assert sizes == equal or min(sizes) >= course.least_share
    if len(whole) == batch and min(shares) >= course.least_share:
        assert sizes == shares


def counted(share: Share) -> list[int]:
    return [index for part in share.passes for index in part.indices[: part.num_local]]


# ---------------------------------------------------------------- real workers
def shares_told(agent: FakeAgent, worker: int) -> dict[int, int]:
    """The samples of a worker by step; of a step that was repeated the last ones."""
    lines = (line.split() for line in agent.log(worker).read_text().splitlines())
    return {int(step): int(samples) for word, step, samples in lines if word == "share"}


@pytest.mark.parametrize("words", [("wide",), pytest.param(("wide", "load"), marks=pytest.mark.slow)])
def test_a_slow_worker_gets_less_and_all_learn_what_one_process_learns(
    start_agent: Callable[..., FakeAgent],
    run_plain: Callable[..., Path],
    tmp_path: Path,
    words: tuple[str, ...],
) -> None:
    agent = start_agent(
        total_steps=2 * EPOCHS, global_batch=WIDE, pace_per_s=PACE_PER_S, checkpoint_interval_s=1e9
    )
    agent.paces_per_s = {1: PACE_PER_S / 2}
    agent.start_ready([0, 1, 2, 3, 4, 5], CURVE, str(tmp_path / "result.json"), str(EPOCHS), *words)
    agent.join([0, 1, 2, 3], source=None)
    agent.wait_steps(0, WINDOW_STEPS + 8)
    noted = witness(agent)
    assert noted.steps is not None
    assert prove(agent, 5) == messages.Proved(steps=noted.steps, is_last=True), "with the gang's own shares"
    agent.kill(2)
    agent.wait(0, messages.Broken)
    steps = agent.join([0, 1, 3, 4], source=0)
    agent.wait(0, messages.Finished)
    assert agent.exit_status(0) == 0
    before, after = (
        {rank: shares_told(agent, rank) for rank in gang} for gang in ([0, 1, 2, 3], [0, 1, 3, 4])
    )
    assert [each[0] for each in before.values()] == [6, 6, 6, 6]
    assert all(
        sum(each[step] for each in before.values()) == (WIDE, 21)[step % 2] for step in range(noted.steps)
    )
    for step in (steps, 2 * EPOCHS - 1):  # at once, for speeds of workers that stay are known
        told = {rank: each[step] for rank, each in after.items()}
        assert sum(told.values()) == (WIDE, 21)[step % 2]
        assert told[1] < min(told[rank] for rank in (0, 3, 4))
    ours = json.loads((tmp_path / "result.json").read_text())
    theirs = json.loads(run_plain("curve.py", str(EPOCHS), *words).read_text())
    assert ours["weights"] == pytest.approx(theirs["weights"], rel=1e-9, abs=1e-12)
    assert ours["losses"].keys() == theirs["losses"].keys() and ours["seen"] == theirs["seen"]
    for step, loss in ours["losses"].items():
        assert loss == pytest.approx(theirs["losses"][step], rel=1e-9)
