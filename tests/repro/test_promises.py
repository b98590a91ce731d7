"""Deadlines met by policy: what is run, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.repro import tiny

from swell.cli import main
from swell_papers import promises
from swell_papers.experiment import Key, Results
from swell_papers.promises import (
    FORGIVEN,
    OURS,
    SOFT,
    PromiseOutcome,
    claims_of,
    lines_of,
    outcome,
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tiny.write(tmp_path / "data")


def test_a_run_that_takes_too_long_is_cut_off(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome(tiny.INPUT, "fifo", data, 0).met is not None
    monkeypatch.setattr(promises, "LEAST_LIMIT_S", 0.0)
    monkeypatch.setattr(promises, "MOST_TIMES", 0.0)
    cut = outcome(tiny.INPUT, "srtf", data, 0)
    assert cut == PromiseOutcome(met=None, cpu_s=0.0)


def _judged(**met: float | None) -> dict[str, Any]:
    """Claims on `tiny` by the end of their text, where policies met these shares; `soft` is ours."""
    found: dict[Key, PromiseOutcome] = {
        (OURS + SOFT if policy == "soft" else policy, "tiny"): PromiseOutcome(
            met=share, admitted=5, admitted_late=policy == OURS, cpu_s=1.0
        )
        for policy, share in met.items()
    }
    results = Results(found, 1)
    return {claim.text.partition(": ")[2]: claim.judged(results) for claim in claims_of("tiny")}


def test_ours_stands_beside_the_best_gate_and_the_best_of_all() -> None:
    broken, gate, everyone = _judged(elasticflow=0.5, soft=0.6, chronus=0.7, edf=0.604, gandiva=None).values()
    assert broken == (0.0, 1.0, False)
    assert gate == (pytest.approx(0.7 - FORGIVEN), 0.5, False) and everyone == (gate[0], 0.6, False)


def test_refused_jobs_of_gates_are_tried_without_a_promise_too() -> None:
    labels = list(lines_of(["edf", "chronus"]))
    assert labels == [OURS, f"{OURS} --refused soft", "edf", "chronus", "chronus --refused soft"]


@pytest.mark.slow
def test_the_command_writes_a_page(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(promises, "INPUTS", (tiny.INPUT,))
    monkeypatch.chdir(tmp_path)
    words = ["repro", "promises", "--data", str(data), "--policy", "fifo,chronus", "--docs", "docs"]
    assert main.run(words) == 0
    page = Path("docs/results/promises.md").read_text()
    assert "| elasticflow | 0.667 |" in page
    assert "tiny,fifo,0.66" in Path("docs/results/promises/promises-inputs.csv").read_text()
    assert Path("docs/images/promises/promises.png").exists()
    assert "Deadlines met on every input" in capsys.readouterr().out
