"""Runs that were made by an independent fluid model, and their simulated twins."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick

from swell_papers.colocated_run import ColocatedJobRecord, ColocatedRun, Contender, LearningSample
from swell_papers.colocated_speed import key_of, step_costs
from swell_papers.colocated_twin import Twin, is_known, mean_errors, twins_of
from swell_papers.flowcon_schedule import FIXED, ColocatedJob, Schedule, drawn

#: Seconds of the fluid between two looks.
TICK_S, REPORT_S = 0.01, 0.5
NONE = Contender("none", "fifo")


class Course(NamedTuple):
    """Of one job: what it costs, and what it has done."""

    job: ColocatedJob
    alone_s: float
    samples: list[LearningSample]


def share_equally(schedule: Schedule, alone_s: float, interference_share: float) -> ColocatedRun:
    """Jobs divide one core equally; with n of them a step costs alone_s (1 + interference log2 n)."""
    courses = [Course(job, alone_s, []) for job in schedule]
    steps, cpu_s, ended_s = [0.0] * len(courses), [0.0] * len(courses), [math.nan] * len(courses)
    now_s, due_s = 0.0, 0.0
    while any(map(math.isnan, ended_s)):
        busy = [at for at, one in enumerate(courses) if one.job.at_s <= now_s and math.isnan(ended_s[at])]
        for at in busy:
            cost_s = courses[at].alone_s * (1.0 + interference_share * math.log2(len(busy)))
            cpu_s[at] += TICK_S / len(busy)
            steps[at] += TICK_S / len(busy) / cost_s
            if steps[at] >= courses[at].job.steps:
                ended_s[at] = now_s + TICK_S
            if now_s >= due_s or not math.isnan(ended_s[at]) or not courses[at].samples:
                courses[at].samples.append(_sample(now_s + TICK_S, steps[at], cpu_s[at]))
        due_s = due_s + REPORT_S if now_s >= due_s else due_s
        now_s += TICK_S
    return ColocatedRun(
        contender=NONE,
        repetition=0,
        jobs=tuple(_record(one, at_s) for one, at_s in zip(courses, ended_s, strict=True)),
        control_cpu_s=0.0,
        load_before=0.0,
        mechanism="a fluid",
    )


def _sample(at_s: float, steps: float, cpu_s: float) -> LearningSample:
    return LearningSample(at_s=at_s, steps=int(steps), loss=math.exp(-steps / 500.0), cpu_s=cpu_s, share=None)


def _record(course: Course, ended_s: float) -> ColocatedJobRecord:
    return ColocatedJobRecord(
        job=course.job,
        submitted_s=course.job.at_s,
        finished_s=ended_s,
        final_loss=course.samples[-1].loss,
        samples=tuple(course.samples),
    )


def _of_steps(schedule: Schedule, steps: int) -> Schedule:
    return tuple(replace(job, steps=steps) for job in schedule)


@pytest.mark.slow
@settings(max_examples=fewer_if_quick(8), deadline=None)
@given(
    seed=st.integers(0, 1000),
    num=st.integers(3, 8),
    alone_s=st.floats(0.004, 0.01),
    interference_share=st.floats(0.0, 0.5),
)
def test_interference_and_costs_alone_are_found(
    seed: int, num: int, alone_s: float, interference_share: float
) -> None:
    schedule = [replace(job, steps=800 * place) for place, job in enumerate(drawn(num, seed), start=1)]
    run = share_equally(tuple(schedule), alone_s, interference_share)
    found = step_costs([run])
    assert found.interference_share == pytest.approx(interference_share, abs=0.03, rel=0.15)
    for job in run.jobs:
        assert found.alone_cpu_s[key_of(run, job)] == pytest.approx(alone_s, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("interference_share", [0.0, 0.2])
@pytest.mark.parametrize("schedule", [FIXED, drawn(10, seed=3)], ids=["fixed", "random10"])
def test_a_twin_ends_when_its_run_did(schedule: Schedule, interference_share: float) -> None:
    run = share_equally(_of_steps(schedule, 2000), 0.004, interference_share)
    twins = twins_of([run], step_costs([run]), num_devices=16, cores=1.0)
    assert len(twins) == len(schedule)
    assert all(abs(twin.error_share) < 0.03 for twin in twins)


def test_where_the_parts_of_the_core_never_change_no_interference_is_seen() -> None:
    """Steps that cost more beside others all the time are as well steps that cost more."""
    together = tuple(replace(job, at_s=0.0, steps=1000) for job in FIXED)
    assert step_costs([share_equally(together, 0.004, 0.3)]).interference_share == pytest.approx(
        0.0, abs=1e-3
    )


def test_a_run_whose_job_failed_has_no_twin() -> None:
    run = share_equally(_of_steps(FIXED, 500), 0.004, 0.0)
    assert is_known(run)
    failed = replace_job(run, finished_s=None)
    assert not is_known(failed)


def test_a_run_with_a_job_that_was_too_short_to_be_measured_has_no_twin() -> None:
    short = replace(FIXED[-1], steps=20)
    runs = [share_equally((*_of_steps(FIXED[:-1], 1000), last), 0.004, 0.0) for last in (short, FIXED[-1])]
    short_run, run = runs[0], msgspec.structs.replace(runs[1], repetition=1)
    assert is_known(short_run)
    twins = twins_of([short_run, run], step_costs([short_run, run]), num_devices=16, cores=1.0)
    assert {twin.repetition for twin in twins} == {1}


def replace_job(run: ColocatedRun, finished_s: float | None) -> ColocatedRun:
    first = ColocatedJobRecord(
        **{name: getattr(run.jobs[0], name) for name in run.jobs[0].__struct_fields__}
        | {"finished_s": finished_s}
    )
    return ColocatedRun(
        **{name: getattr(run, name) for name in run.__struct_fields__} | {"jobs": (first, *run.jobs[1:])}
    )


def test_errors_of_a_run_may_cancel() -> None:
    twins = [Twin("a", 0, 10.0, 12.0), Twin("a", 0, 10.0, 8.0), Twin("a", 1, 10.0, 11.0)]
    assert mean_errors(twins) == pytest.approx([0.0, 0.1])
