"""Learnt margins beside fixed ones: what is run, and what is said of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repro import tiny

from swell.cli import main
from swell_papers.experiment import Context
from swell_papers.findings import Findings, findings
from swell_papers.margins import (
    FIXED_MARGINS,
    LOGS,
    QUANTILES,
    TRUTHS,
    Found,
    MarginOutcome,
    cases,
    pooled,
    tell,
)


def outcome(met: int = 90, promised: int = 100, broken: int = 0) -> MarginOutcome:
    kept = tuple(round(1000 * share) for share in QUANTILES)
    return MarginOutcome(num_jobs=120, met=met, promised=promised, broken=broken, kept=kept, estimates=1000)


def told(found: Found) -> Findings:
    return findings("margins", "", (), tell(Context(data=Path()), found))


def test_there_are_twenty_logs_of_seconds_to_hours() -> None:
    assert len({on.name for on in LOGS}) == len(LOGS) == 20


@pytest.mark.slow
def test_every_truth_is_run_with_every_margin(tmp_path: Path) -> None:
    wanted = cases(Context(data=tiny.write(tmp_path / "data")), [tiny.INPUT])
    num_barred = sum(truth.most_share is not None for truth in TRUTHS)
    assert len(wanted) == len(TRUTHS) + num_barred * len(FIXED_MARGINS)
    found = {key: run() for key, run in wanted.items()}
    assert all(0 <= one.broken <= one.promised <= one.num_jobs == 3 for one in found.values())


def test_what_breaks_too_many_promises_or_meets_fewer_deadlines_is_named() -> None:
    truth = next(truth.name for truth in TRUTHS if truth.most_share)
    learnt, fixed = (truth, None, "a"), (truth, 0.1, "a")
    good = told({learnt: outcome(), fixed: outcome(met=90)})
    assert not good.missed and [row[1] for row in good.tables[0].rows] == ["learnt", "0.1"]
    assert any("promises broken" in line for line in told({learnt: outcome(broken=3)}).missed)
    (line,) = told({learnt: outcome(met=80), fixed: outcome(met=90)}).missed
    assert "with a margin of 0.1" in line
    assert not told({learnt: outcome(met=80), fixed: outcome(met=90, broken=9)}).missed


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
