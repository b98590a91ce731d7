"""ElasticFlow as it is printed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.policies.snapshots import Job, in_fine_steps, promised, snapshot, strict

from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell_papers.policies.elasticflow_paper import ElasticFlowPaper

LINEAR = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}
FIGURE_4 = {1: 1.0, 2: 1.5, 4: 2.0}
CURVES = (LINEAR, FIGURE_4, {1: 1.0, 2: 1.9, 4: 3.2, 8: 4.1}, {2: 1.0, 4: 1.7})
PAPER = ElasticFlowPaper()


def plain_filling(jobs: Sequence[Job], num_devices: int, slack: float) -> bool:
    """Algorithm 1, lines 4-9 and 11-22, in continuous time with its corrections; `slack` scales the work."""
    free = [(0.0, num_devices)]  # from when on how many are free
    for job in sorted(jobs, key=lambda job: job.deadline):
        shares = _fill(job, free, job.steps * slack)
        if shares is None:
            return False
        edges = sorted({*(start for start, _ in free), *(start for start, _ in shares)})
        free = [(edge, _at(free, edge) - _at(shares, edge)) for edge in edges]
    return True


def _at(steps: Sequence[tuple[float, int]], at: float) -> int:
    return [num for start, num in steps if start <= at][-1]


def _fill(job: Job, free: Sequence[tuple[float, int]], need: float) -> list[tuple[float, int]] | None:
    """What the job takes, from when on; None: it cannot be satisfied."""
    sizes = [0, *job.rates]
    ends = [*(start for start, _ in free[1:]), float("inf")]
    segments = [
        (start, min(end, job.deadline), num)
        for (start, num), end in zip(free, ends, strict=True)
        if start < job.deadline
    ]
    for lower, higher in itertools.pairwise(sizes):  # line 13
        fits = [
            [max(size for size in sizes if size <= min(most, num)) for _, _, num in segments]
            for most in (lower, higher)
        ]
        done = sum(
            _rate(job, size) * (end - start) for size, (start, end, _) in zip(fits[0], segments, strict=True)
        )
        for place in reversed(range(len(segments))):  # line 14
            (start, end, _), below, above = segments[place], fits[0][place], fits[1][place]
            slope = _rate(job, above) - _rate(job, below)
            if done + slope * (end - start) >= need:  # line 17
                cut = end - max(need - done, 0.0) / slope if slope else end
                starts = [start for start, _, _ in segments]
                before = list(zip(starts[: place + 1], fits[0][: place + 1], strict=True))
                after = list(zip(starts[place + 1 :], fits[1][place + 1 :], strict=True))
                return [*before, (cut, above), *after, (job.deadline, 0)]
            done += slope * (end - start)
    return None


def _rate(job: Job, size: int) -> float:
    return job.rates[size] if size else 0.0


@st.composite
def crowds(draw: st.DrawFn) -> list[Job]:
    """Jobs of which the last is new, and the others were admitted: plain filling satisfies them."""
    deadlines = draw(
        st.lists(st.floats(1.0, 40.0), min_size=1, max_size=6, unique_by=lambda value: round(value, 1))
    )
    return [
        strict(f"j{index}", draw(st.sampled_from(CURVES)), draw(st.floats(0.5, 60.0)), deadline)
        for index, deadline in enumerate(deadlines)
    ]


@given(jobs=crowds(), num_devices=st.sampled_from([1, 2, 4, 8]))
@settings(max_examples=share_of_examples(0.5), deadline=None)
def test_it_admits_what_algorithm_1_admits(jobs: list[Job], num_devices: int) -> None:
    """One after the other; where a thousandth of the work decides, either answer is right."""
    admitted = list[Job]()
    for job in jobs:
        trial = [*admitted, job]
        verdict = plain_filling(trial, num_devices, 1.0)
        if (
            plain_filling(trial, num_devices, 1.001) != verdict
            or plain_filling(trial, num_devices, 0.999) != verdict
        ):
            return
        view = snapshot([*map(as_promised, admitted), in_fine_steps(job)], num_devices)
        assert (not PAPER.decide(view).refusals) == verdict
        admitted = trial if verdict else admitted


def as_promised(job: Job) -> Job:
    fine = in_fine_steps(job)
    return promised(fine.id, fine.rates, fine.steps, fine.deadline)


def test_figure_4_c_is_satisfied_with_one_device_and_then_four() -> None:
    """A and B need three devices for the first time unit: C gets what they leave, and then all."""
    others = [promised("a", {1: 1.0}, 1.0, 1.0), promised("b", {2: 1.0}, 1.0, 1.0)]
    fits, is_too_long = (in_fine_steps(strict("c", FIGURE_4, steps, 2.0)) for steps in (3.0, 3.1))
    answer = PAPER.decide(snapshot([*others, fits], 4))
    assert not answer.refusals
    assert answer.floor.tolist() == [1, 2, 1]
    assert set(PAPER.decide(snapshot([*others, is_too_long], 4)).refusals) == {2}


def test_no_job_is_refused_for_its_size() -> None:
    """Of 40 small newcomers too many came to fit: `elasticflow` then refuses a large one that does."""
    num = 40
    came = {"submitted_s": [990.0] * num, "device_s": [20.0] * num, "window_s": [100.0] * num}
    jobs = [promised("a", LINEAR, 300.0, 100.0), strict("large", LINEAR, 400.0, 100.0)]
    view = replace(snapshot(jobs, 8), memory={"newcomers": came | {"tenant": [0] * num}})
    assert set(ElasticFlow().decide(view).refusals) == {1}
    assert not PAPER.decide(view).refusals


def test_the_largest_return_per_device_gets_what_is_left() -> None:
    """Up to two devices each they gain alike; then the one whose curve goes on rising comes first."""
    jobs = [promised("a", {1: 1.0, 2: 2.0, 4: 2.5}, 8.0, 100.0), promised("b", LINEAR, 8.0, 100.0)]
    assert PAPER.decide(snapshot(jobs, 6)).workers.tolist() == [2, 4]
    assert PAPER.decide(snapshot(jobs, 8)).workers.tolist() == [4, 4]
