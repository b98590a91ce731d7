"""Learnt margins beside fixed ones: what is run, what is remembered, and what is said of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repro import tiny

from swell.cli import main
from swell_papers import margin_cells, program_digest
from swell_papers.margin_cells import (
    FIXED_MARGINS,
    LOGS,
    QUANTILES,
    TRUTHS,
    MarginCell,
    MarginCells,
    MarginOutcome,
)
from swell_papers.margins import MarginRuns, findings_of, pooled


def outcome(met: int = 90, promised: int = 100, broken: int = 0) -> MarginOutcome:
    kept = tuple(round(1000 * share) for share in QUANTILES)
    return MarginOutcome(
        num_jobs=120, met=met, promised=promised, broken=broken, kept=kept, estimates=1000, cpu_s=1.0
    )


@pytest.fixture
def cells(tmp_path: Path) -> MarginCells:
    program_digest.digest_of.cache_clear()
    return MarginCells(data=tiny.write(tmp_path / "data"), folder=tmp_path / "runs")


def test_there_are_twenty_logs_of_seconds_to_hours() -> None:
    assert len({on.name for on in LOGS}) == len(LOGS) == 20


@pytest.mark.slow
def test_every_truth_is_run_with_every_margin_and_remembered(
    cells: MarginCells, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = MarginRuns(cells=cells, logs=[tiny.INPUT]).all(TRUTHS)
    num_barred = sum(truth.most_share is not None for truth in TRUTHS)
    assert len(outcomes) == len(TRUTHS) + num_barred * len(FIXED_MARGINS)
    assert all(0 <= one.broken <= one.promised <= one.num_jobs == 3 for one in outcomes.values())
    monkeypatch.setattr(margin_cells, "simulate", None)  # it is not called again
    assert MarginRuns(cells=cells, logs=[tiny.INPUT]).all(TRUTHS) == outcomes
    assert MarginRuns(cells=cells, logs=[tiny.INPUT], until_s=0.0).all(TRUTHS) == outcomes


def test_what_breaks_too_many_promises_or_meets_fewer_deadlines_is_named() -> None:
    truth = next(truth for truth in TRUTHS if truth.most_share)
    learnt = MarginCell(input="a", truth=truth.name, margin=None)
    fixed = MarginCell(input="a", truth=truth.name, margin=0.4)
    good = findings_of({learnt: outcome(), fixed: outcome(met=90)}, TRUTHS, 0)
    assert not good.missed and [row[1] for row in good.tables[0].rows] == ["learnt", "0.4"]
    assert any(
        "promises broken" in line for line in findings_of({learnt: outcome(broken=3)}, TRUTHS, 0).missed
    )
    (line,) = findings_of({learnt: outcome(met=80), fixed: outcome(met=90)}, TRUTHS, 0).missed
    assert "with a margin of 0.4" in line
    broken = outcome(met=90, broken=9)
    assert not findings_of({learnt: outcome(met=80), fixed: broken}, TRUTHS, 0).missed


def test_a_truth_counts_the_logs_alone_that_all_of_its_margins_were_run_on() -> None:
    def cell(log: str, margin: float | None) -> MarginCell:
        return MarginCell(input=log, truth=TRUTHS[0].name, margin=margin)

    outcomes = {cell(log, margin): outcome() for log, margin in (("a", None), ("b", None), ("b", 0.0))}
    assert [row[2] for row in findings_of(outcomes, TRUTHS, 0).tables[0].rows] == [1, 1]


@given(broken=st.integers(0, 50), more=st.integers(0, 10_000))
def test_bounds_hold_the_share_and_close_in_on_it(broken: int, more: int) -> None:
    few, many = (
        pooled([outcome(promised=50 + more, broken=broken)] * times).broken_bounds for times in (1, 4)
    )
    share = broken / (50 + more)
    bounds = [0.0, few[0], many[0], share, many[1], few[1], 1.0]
    assert all(low <= high + 1e-12 for low, high in pairwise(bounds))


def test_missing_inputs_and_unknown_truths_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["repro", "margins", "--data", str(tmp_path)]) == 2
    assert "lacks elasticflow/traces/195job.csv" in capsys.readouterr().err
    assert main.run(["repro", "margins", "--data", str(tmp_path), "--only", "rain"]) == 2
    assert "no truth begins so; there are exact, noise .05" in capsys.readouterr().err
