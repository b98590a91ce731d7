from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repro import tiny

from swell.sim.outcome import SimOutcome, Usage
from swell_papers.experiment import Context
from swell_papers.findings import Cell, Findings, Table
from swell_papers.log_experiment import LogExperiment, efficiency_per_hour
from swell_papers.measures import HOUR_S


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tiny.write(tmp_path)


def found(experiment: LogExperiment, data: Path) -> Findings:
    return experiment.run(Context(data=data))


def rows(table: Table) -> list[dict[str, Cell]]:
    return [
        {column.name: cell for column, cell in zip(table.columns, row, strict=True)} for row in table.rows
    ]


def test_paper_published_and_ours_stand_side_by_side(data: Path) -> None:
    findings = found(tiny.experiment(tiny.COMPARED, tiny.line("fifo")), data)
    compared, fifo = rows(findings.tables[0])
    assert compared["paper"] == 0.5
    assert compared["own"] == pytest.approx(2 / 3)
    assert compared["strict"] == pytest.approx(1 / 3)
    assert compared["changed"] == compared["everyone"] == pytest.approx(2 / 3)
    assert compared["points"] == pytest.approx(100 / 3)
    assert (compared["adm"], compared["rej"], compared["late"]) == (2, 1, 0)
    assert fifo["changed"] == pytest.approx(2 / 3)
    assert fifo["late"] == 1
    assert fifo["everyone"] is None, "there is nothing to compare it with"


def test_printed_ratios_stand_beside_ours(data: Path) -> None:
    experiment = tiny.experiment(tiny.COMPARED, tiny.line("fifo", paper={"deadline_satisfaction": 0.25}))
    for printed, comes_out in ((1.0, "yes"), (2.0, "no")):
        findings = found(replace(experiment, ratios={"fifo": printed}), data)
        (table,) = (one for one in findings.tables if one.name == "1a-ratios")
        assert [list(row) for row in table.rows] == [
            ["fifo", printed, 2.0, pytest.approx(1.0), None, comes_out]
        ]


def test_the_time_between_scheduling_events_is_that_between_arrivals_and_ends(data: Path) -> None:
    experiment = replace(tiny.experiment(tiny.line("elasticflow")), interval_min=23.0)
    result = found(experiment, data)
    (told,) = (note for note in result.notes if "between scheduling events" in note)
    # Three arrivals within 700 s, one of them refused, and two ends.
    (makespan,) = (one for one in result.tables if one.title == "makespan in hours")
    minutes = float(makespan.rows[0][-1] or 0.0) * 60.0 / 4.0
    assert told.endswith(f"under elasticflow: {minutes:.1f} (1x4).")


def test_columns_in_which_there_is_nothing_are_left_out(data: Path) -> None:
    (table, *_) = found(tiny.experiment(tiny.line("elasticflow")), data).tables
    names = [column.name for column in table.columns]
    assert names == ["case", "policy", "changed", "adm", "rej", "late"]


def test_the_makespan_of_a_published_run_is_on_the_clock_of_its_trace(data: Path) -> None:
    table = found(tiny.experiment(tiny.COMPARED), data).tables[1]
    (row,) = rows(table)
    assert row["published"] == pytest.approx((12030 - 1000) / HOUR_S)


def test_counts_stand_in_for_a_run_that_is_not_at_hand(data: Path) -> None:
    findings = found(tiny.experiment(tiny.line("elasticflow", counts=(3, 1))), data)
    (row,) = rows(findings.tables[0])
    assert row["own"] == 1.0
    assert row["strict"] == pytest.approx(1 / 3)


def test_a_missing_published_run_is_said_and_the_rest_is_done(data: Path) -> None:
    (data / tiny.RUN).unlink()
    findings = found(tiny.experiment(tiny.COMPARED), data)
    assert any(tiny.RUN in note and "missing" in note for note in findings.notes)
    assert rows(findings.tables[0])[0]["changed"] == pytest.approx(2 / 3)


def test_a_large_difference_is_explained_or_said_not_to_be(data: Path) -> None:
    lines = (tiny.COMPARED, tiny.line("fifo", run=tiny.RUN))
    findings = found(tiny.experiment(*lines), data)
    assert (
        "elasticflow differs from the published simulator's own run by (1x4 +33.3) points. Not explained."
        in findings.notes
    )
    assert "fifo differs from the published simulator's own run by (1x4 +33.3) points." in findings.notes
    assert findings.reasons == (("fifo", "It knows no deadlines."),)


@pytest.mark.parametrize(("at_least", "is_reached"), [(0.6, True), (0.7, False)])
def test_what_is_to_be_reached(data: Path, at_least: float, is_reached: bool) -> None:
    findings = found(tiny.experiment(tiny.line("elasticflow"), at_least=at_least), data)
    mean, broken = (row for table in findings.tables if table.name == "1a-claims" for row in rows(table))
    assert mean["comes out"] == ("yes" if is_reached else "no") and broken["comes out"] == "yes"
    assert bool(findings.missed) is not is_reached


def test_a_broken_promise_misses_whatever_the_mean(data: Path) -> None:
    slow = tiny.JOBS.replace("late,1700,3600", "late,1700,9000000")
    tiny.write(data, {tiny.TRACE: slow.replace("elasticflow", "fifo")})
    experiment = tiny.experiment(tiny.line("fifo"), at_least=0.0)
    bar = type(experiment.bars[0])(policy="fifo", cases=("1x4",), at_least=0.0)
    experiment = LogExperiment(
        name="x", title="", cases=experiment.cases, measures=experiment.measures, bars=(bar,)
    )
    assert "broken promises" in found(experiment, data).missed[0]


@pytest.mark.slow
def test_broken_promises_are_told_with_how_late_they_were(data: Path) -> None:
    """Every arrival costs everybody 2 s, which admission cannot foresee."""
    jobs = "".join(f"e{at},{1000 + at},1,net,9000,64,1,1\n" for at in range(100, 1100, 5))
    tiny.write(data, {tiny.TRACE: tiny.JOBS.replace(",9000,", ",2360,") + jobs})
    findings = found(tiny.experiment(tiny.COMPARED), data)
    told = [note for note in findings.notes if note.startswith("elasticflow broke")]
    assert any("on 1x4, resize cost everyone: 1, late by" in note for note in told), told
    assert not any("resize cost changed" in note for note in told)


def test_the_truth_names_cost_seed_version_settings_and_inputs(data: Path) -> None:
    truth = found(tiny.experiment(tiny.COMPARED), data).truth
    for word in ("resize cost changed", "everyone", "noise 0", "seed 0", "min_hold_s=60", "swell 0."):
        assert word in truth[0]
    assert (
        f"{tiny.TRACE} (sha256 " in truth[1] and "3 jobs" in truth[1] and "1x4 devices of tables" in truth[1]
    )
    assert str(data) not in "".join(truth)


def test_a_relative_measure_has_its_own_policy_as_1(data: Path) -> None:
    jobs = tiny.JOBS.replace("duration\n", "duration,best_effort\n").replace(",3600\n", ",3600,1\n")
    tiny.write(data, {tiny.TRACE: jobs.replace(",1200\n", ",1200,0\n")})
    table = found(tiny.experiment(tiny.line("gandiva"), tiny.line("elasticflow")), data).tables[3]
    assert table.name == "1a-best_effort_speed_up"
    gandiva, elasticflow = (row["changed"] for row in rows(table))
    assert gandiva == 1.0
    assert isinstance(elasticflow, float) and elasticflow > 1.0, "one device is not all it can use"


@pytest.mark.parametrize("picture", ["policies", "cases", "lines", "time", "allocation"])
def test_every_kind_of_picture_has_what_was_found(data: Path, picture: str) -> None:
    findings = found(tiny.experiment(tiny.COMPARED, tiny.line("fifo"), num_cases=2, picture=picture), data)
    for chart in findings.charts:
        for panel in chart.panels:
            assert all(len(series.values) == len(chart.x) for series in panel.series)
    shown = [
        value for panel in findings.charts[0].panels for series in panel.series for value in series.values
    ]
    assert any(value is not None for value in shown)


def test_policies_that_are_not_run_show_what_was_published(data: Path) -> None:
    experiment = tiny.experiment(tiny.COMPARED, tiny.line("fifo"), at_least=1.0)
    findings = experiment.run(Context(data=data, policies=frozenset({"fifo"})))
    compared, fifo = rows(findings.tables[0])
    assert (compared["paper"], compared["changed"]) == (0.5, None)
    assert fifo["changed"] == pytest.approx(2 / 3)
    assert not findings.missed, "who does not run cannot miss"
    assert "run were only fifo" in findings.truth[0]


def test_devices_and_admissions_by_the_hour(data: Path) -> None:
    """`easy` is done after 3,600 s on one device or sooner on more; `hopeless` is refused."""
    experiment = tiny.experiment(tiny.line("elasticflow"), tiny.line("fifo"), picture="allocation")
    findings = found(experiment, data)
    devices, jobs = findings.charts
    held = {series.label: series.values for series in devices.panels[0].series}
    assert held.keys() == {"elasticflow", "fifo"}
    assert all(0.0 <= (value or 0.0) <= 4.0 for values in held.values() for value in values)
    counts = {series.label: series.values[-1] for series in jobs.panels[0].series}
    assert counts == {"submitted": 3.0, "admitted by elasticflow": 2.0}, "fifo refuses no job"
    (table,) = (table for table in findings.tables if table.name == "1a-hours")
    assert rows(table)[0].keys() == {"from hour", "elasticflow", "fifo", "submitted", "adm elasticflow"}
    assert (rows(table)[0]["submitted"], rows(table)[0]["adm elasticflow"]) == (3, 2)


def test_only_the_first_jobs_of_a_log(data: Path) -> None:
    experiment = tiny.experiment(tiny.line("fifo"))
    first = replace(experiment, cases=(replace(experiment.cases[0], num_jobs=1),))
    assert "three.csv" in found(first, data).truth[1] and ", 1 jobs," in found(first, data).truth[1]


def test_a_log_that_is_not_public_has_a_row_that_says_so(data: Path) -> None:
    experiment = replace(tiny.experiment(tiny.line("fifo")), not_public={"3": {"elasticflow": 0.455}})
    (table,) = (one for one in found(experiment, data).tables if one.name == "1a-not-public")
    assert rows(table) == [{"case": "3", "elasticflow": 0.455, "here": "not run: the log is not public"}]


def test_the_same_twice(data: Path) -> None:
    experiment = tiny.experiment(tiny.COMPARED, tiny.line("tiresias"))
    assert found(experiment, data) == found(experiment, data)


@given(
    lengths_s=st.lists(st.floats(1.0, 3 * HOUR_S), min_size=1, max_size=6),
    values=st.lists(st.floats(0.0, 8.0), min_size=6, max_size=6),
)
def test_means_of_the_hours_add_up_to_the_mean_of_the_whole(
    lengths_s: list[float], values: list[float]
) -> None:
    at_s = np.cumsum([0.0, *lengths_s[:-1]])
    zeros = np.zeros(len(at_s))
    usage = Usage(at_s, zeros, np.array(values[: len(at_s)]))
    makespan_s = float(sum(lengths_s))
    outcome = SimOutcome(
        jobs=(), usage=usage, num_devices=8, end_s=makespan_s, num_events=0, decision_s=zeros, cpu_s=0.0
    )
    means = efficiency_per_hour(outcome, makespan_s)
    hours_s = np.diff(np.append(np.arange(0.0, makespan_s, HOUR_S), makespan_s))
    assert means @ hours_s / makespan_s == pytest.approx(usage.mean(usage.efficiency, makespan_s) / 8)
