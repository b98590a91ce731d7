"""Policies on three jobs: what is run, and how it stands beside what was printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repro import tiny

from swell.sim.outcome import SimOutcome, Usage
from swell_papers.experiment import Context, Study
from swell_papers.findings import Cell, Findings, Table
from swell_papers.log_experiment import HOUR_S, LogCase, LogLine, efficiency_per_hour, log_study

FIFO = LogLine(policy="fifo")
ELASTICFLOW = LogLine(policy="elasticflow")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tiny.write(tmp_path)


def found(experiment: Study[Any], data: Path) -> Findings:
    return experiment.run(Context(data=data))


def rows(table: Table) -> list[dict[str, Cell]]:
    return [
        {column.name: cell for column, cell in zip(table.columns, row, strict=True)} for row in table.rows
    ]


def claims(findings: Findings) -> dict[str, tuple[Any, ...]]:
    """What is wanted, what there is, and whether it comes out, by the claim."""
    (table,) = (one for one in findings.tables if one.name == "1a-claims")
    return {str(text): (figure, ours, comes_out) for text, figure, ours, _, comes_out in table.rows}


def test_paper_and_ours_stand_side_by_side(data: Path) -> None:
    findings = found(tiny.experiment(tiny.COMPARED, FIFO), data)
    compared, fifo = rows(findings.tables[0])
    assert compared["paper"] == 0.5
    assert compared["changed"] == pytest.approx(2 / 3)
    assert (compared["adm"], compared["rej"], compared["late"]) == (2, 1, 0)
    assert fifo["changed"] == pytest.approx(2 / 3)
    assert fifo["late"] == 1


@pytest.mark.parametrize(("printed", "comes_out"), [(1.0, "yes"), (2.0, "no")])
def test_a_printed_ratio_is_a_claim(data: Path, printed: float, comes_out: str) -> None:
    findings = found(tiny.experiment(tiny.COMPARED, FIFO, ratios={"fifo": printed}), data)
    judged = claims(findings)["deadlines met by elasticflow over fifo, mean over cases"]
    assert judged == (printed, pytest.approx(1.0), comes_out)


def test_the_time_between_scheduling_events_is_that_between_arrivals_and_ends(data: Path) -> None:
    result = found(tiny.experiment(ELASTICFLOW, interval_min=23.0), data)
    # Three arrivals within 700 s, one of them refused, and two ends.
    minutes = float(rows(result.tables[0])[0]["makespan, h"] or 0.0) * 60.0 / 4.0
    told = claims(result)["minutes between scheduling events, mean over cases"]
    assert told[:2] == (23.0, pytest.approx(minutes))


@pytest.mark.parametrize(("at_least", "is_reached"), [(0.6, True), (0.7, False)])
def test_what_is_to_be_reached(data: Path, at_least: float, is_reached: bool) -> None:
    findings = found(tiny.experiment(ELASTICFLOW, at_least=at_least), data)
    mean, broken = claims(findings).values()
    assert mean[-1] == ("yes" if is_reached else "no") and broken[-1] == "yes"
    assert bool(findings.missed) is not is_reached


def test_devices_and_admissions_by_the_hour(data: Path) -> None:
    """`easy` is done after 3,600 s on one device or sooner on more; `hopeless` is refused."""
    findings = found(tiny.experiment(ELASTICFLOW, FIFO, over_time="devices"), data)
    devices, jobs = findings.charts
    held = devices.panels[""]
    assert held.keys() == {"elasticflow", "fifo"}
    assert all(0.0 <= (value or 0.0) <= 4.0 for values in held.values() for value in values)
    counts = {label: values[-1] for label, values in jobs.panels[""].items()}
    assert counts == {"submitted": 3, "admitted by elasticflow": 2}, "fifo refuses no job"
    (table,) = (table for table in findings.tables if table.name == "1a-jobs-hours")
    assert rows(table)[0] == {"hour": 0, "submitted": 3, "admitted by elasticflow": 2}


def test_only_the_first_jobs_of_a_log(data: Path) -> None:
    case = LogCase(
        name="1x4", trace=tiny.TRACE, profiles=tiny.PROFILES, cluster=(1, 4), lines=(FIFO,), num_jobs=1
    )
    truth = found(log_study(name="1a", title="", cases=[case]), data).truth
    assert "three.csv" in truth[1] and ", 1 jobs," in truth[1]


@given(
    lengths_s=st.lists(st.floats(1.0, 3 * HOUR_S), min_size=1, max_size=6),
    values=st.lists(st.floats(0.0, 8.0), min_size=6, max_size=6),
)
def test_means_of_the_hours_add_up_to_the_mean_of_the_whole(
    lengths_s: list[float], values: list[float]
) -> None:
    at_s = np.cumsum([0.0, *lengths_s[:-1]])
    zeros = np.zeros(len(at_s))
    usage = Usage(at_s, zeros, np.array(values[: len(at_s)]), zeros, zeros)
    makespan_s = float(sum(lengths_s))
    outcome = SimOutcome(
        jobs=(), usage=usage, num_devices=8, end_s=makespan_s, num_events=0, decision_s=zeros, cpu_s=0.0
    )
    means = efficiency_per_hour(outcome, makespan_s)
    hours_s = np.diff(np.append(np.arange(0.0, makespan_s, HOUR_S), makespan_s))
    assert means @ hours_s / makespan_s == pytest.approx(usage.mean(usage.efficiency, makespan_s) / 8)
