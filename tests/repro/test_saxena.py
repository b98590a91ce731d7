"""The evaluation of Saxena et al., on a cluster that is small enough to be quick."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell_papers.experiment import Claim, Context, Study
from swell_papers.saxena import (
    DROP,
    JCT,
    MEASURES,
    PRINTED,
    SJS,
    SaxenaCase,
    SaxenaLine,
    SaxenaRun,
    run_once,
    saxena_study,
)
from swell_papers.saxena_workload import Pattern, workload

BURSTY = Pattern(name="bursty", minutes=60.0, high=2.0, low=0.0, phase_minutes=30.0)
LINES = (
    SaxenaLine(
        label="elastic, dropping", policy="saxena", paper={SJS.name: 0.8, DROP.name: 0.1, JCT.name: 23.0}
    ),
    SaxenaLine(
        label="baseline, dropping",
        policy="saxena_random_batch",
        paper={SJS.name: 0.5, DROP.name: 0.4, JCT.name: 28.0},
    ),
    SaxenaLine(
        label="elastic, queueing", policy="saxena", drops=False, paper={SJS.name: 0.8, JCT.name: 28.0}
    ),
    SaxenaLine(
        label="baseline, queueing",
        policy="saxena_random_batch",
        drops=False,
        paper={SJS.name: 0.4, JCT.name: 300.0},
    ),
)
CASE = SaxenaCase(
    name="small",
    pattern=BURSTY,
    num_devices=4,
    categories=(0, 1, 2, 3),
    lines=LINES,
    minutes=10.0,
    num_seeds=2,
)
CONTEXT = Context(data=Path())


def experiment(case: SaxenaCase = CASE, limit: float = 0.0) -> Study[SaxenaRun]:
    return saxena_study(
        name="fig1",
        title="Figure 1: a small cluster",
        cases=(case,),
        claims=(
            Claim(
                text="jobs",
                figure=1e9,
                of=lambda found: found.mean(MEASURES[0].of, "small", "elastic, dropping"),
            ),
            Claim(text="drops", figure=1.0, of=lambda found: 0.9),
            Claim(
                text="of a line that was not run",
                figure=1.0,
                of=lambda found: found.mean(MEASURES[0].of, "small", "x"),
            ),
            Claim(
                text="small, elastic, dropping: SJS efficiency",
                figure=limit,
                of=lambda found: found.mean(SJS.of, "small", "elastic, dropping"),
                way=">=",
                is_target=True,
            ),
        ),
    )


@given(seed=st.integers(0, 100), num_devices=st.sampled_from([4, 40]))
def test_as_many_jobs_arrive_as_the_load_says(seed: int, num_devices: int) -> None:
    """Section IV-A: a Poisson process that is high and low in turn."""
    pattern = Pattern(name="bursty", minutes=480.0, high=1.0, low=0.2, phase_minutes=120.0)
    jobs = tuple(workload(pattern, num_devices, (0, 1, 2, 3), seed, 30.0).jobs)
    expected = 0.6 * num_devices * 480.0 / 30.0
    assert abs(len(jobs) - expected) < 6.0 * np.sqrt(expected)
    high = sum(job.submit_s % (240 * 60) < 120 * 60 for job in jobs)
    assert abs(high - expected / 1.2) < 6.0 * np.sqrt(expected)
    assert all(0.0 <= job.submit_s < 480 * 60 for job in jobs)
    assert jobs == tuple(workload(pattern, num_devices, (0, 1, 2, 3), seed, 30.0).jobs)


@pytest.mark.slow
def test_at_the_printed_rate_the_baseline_drops_too_few_jobs_for_the_printed_gains() -> None:
    """Section IV-A prints a rate at which section IV-E's 82 % more completed jobs do not come out."""
    case = SaxenaCase(
        name="rate", pattern=PRINTED, num_devices=40, categories=(0,), lines=LINES[:2], minutes=30.0
    )
    elastic, baseline = (run_once(case, line, 0) for line in case.lines)
    assert DROP.of(elastic) == 0.0 < (DROP.of(baseline) or 0.0) < 0.15
    assert 1.0 < elastic.metrics.completed / baseline.metrics.completed < 1.2


def test_a_run_alone_takes_what_its_category_does() -> None:
    """One device, one job at a time: nothing can be faster or slower."""
    rare = replace(CASE, num_devices=2, pattern=Pattern(name="rare", minutes=600.0, high=0.05), minutes=None)
    run = run_once(rare, replace(LINES[0], drops=False, parameters={"k_max": 1.0}), 0)
    assert SJS.of(run) == pytest.approx(1.0) and DROP.of(run) == 0.0
    assert 16.0 <= (JCT.of(run) or 0.0) <= 41.0


@pytest.mark.slow
def test_paper_and_ours_stand_side_by_side() -> None:
    found = experiment().run(CONTEXT)
    measures, claims = found.tables
    assert [row[1] for row in measures.rows] == [line.label for line in LINES]
    columns = [column.name for column in measures.columns]
    row = dict(zip(columns, measures.rows[0], strict=True))
    assert row["SJS efficiency, paper"] == 0.8 and row["drop ratio, paper"] == 0.1
    assert 0.0 < float(row["SJS efficiency"] or 0.0) <= 1.0 and float(row["drop ratio"] or 0.0) > 0.0
    assert [row[-1] for row in claims.rows] == ["no", "yes", "yes"]
    assert not found.missed
    [chart] = found.charts
    [(title, lines)] = chart.panels.items()
    assert title == "small" and chart.x == tuple(line.label for line in LINES)
    assert all((value or 0.0) > 0.0 for value in next(iter(lines.values())))
