"""Deadlines met by policy: what is run, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.repro import tiny

from swell.cli import main
from swell.model.errors import InvalidInput
from swell.policies.registry import POLICIES
from swell.sim.traces.arrivals import Poisson
from swell.sim.traces.entry import Trace, TraceJob
from swell.sim.traces.generate import Demand, generate
from swell_papers import promises
from swell_papers.experiment import Context, Key, Results
from swell_papers.promise_inputs import INPUTS, first_from, rate_per_s
from swell_papers.promises import (
    COMPARED,
    FORGIVEN,
    OURS,
    SOFT,
    PromiseOutcome,
    claims_of,
    lines_of,
    outcome,
)
from swell_papers.variants import VARIANTS


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tiny.write(tmp_path / "data")


def test_every_input_is_named_once_and_told_by_its_beginning() -> None:
    names = [on.name for on in INPUTS]
    assert len(set(names)) == len(names)
    assert {"6b-16x8", "8a-16x4", "8b-Philly", "9-256", "11-90%", "philly-90-32x8", "made-3h-2"} <= set(names)
    known = dict(zip(names, INPUTS, strict=True))
    assert len(Context(data=Path(), only=("philly-", "made-")).chosen(known, "input")) == 6 + 12
    assert Context(data=Path()).chosen(known, "input") == list(INPUTS)
    with pytest.raises(InvalidInput, match="no input begins so; there are 6b-16x8"):
        Context(data=Path(), only=("7",)).chosen(known, "input")


def test_every_policy_that_chooses_sizes_is_compared_or_is_a_variant_of_one_that_is() -> None:
    choosing = {name for name, policy in POLICIES.items() if not policy.domain.shares_cores}
    assert set(COMPARED) <= choosing | set(VARIANTS)
    variants = choosing - set(COMPARED)
    assert all(name.rpartition("_")[0].startswith(COMPARED) for name in variants)


def test_a_stretch_of_a_log_begins_at_its_day() -> None:
    jobs = tuple(TraceJob(id=f"{at}", submit_s=float(at)) for at in (0, 50, 60, 70))
    stretch = first_from(Trace(jobs=jobs, format="plain", source="log", epoch_s=100.0), 145.0, 2)
    assert [(job.id, job.submit_s) for job in stretch.jobs] == [("50", 0.0), ("60", 10.0)]
    assert stretch.epoch_s == 150.0


@pytest.mark.parametrize("load", [0.3, 2.0])
def test_a_made_up_log_demands_its_load(load: float) -> None:
    demand = Demand(median_s=100.0, spread=0.5)
    jobs = generate(Poisson(rate_per_s(demand, load, 64)), 20_000, demand).jobs
    demanded_s = sum((job.duration_s or 0.0) * (job.num_devices or 0) for job in jobs)
    assert demanded_s / (64 * jobs[-1].submit_s) == pytest.approx(load, rel=0.05)


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


def test_a_difference_that_is_forgiven_is_none_and_without_a_gate_there_is_no_claim() -> None:
    _, gate, everyone = _judged(elasticflow=0.6, soft=0.6, edf=0.604).values()
    assert gate is None and everyone is not None and everyone[-1]


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


def test_missing_inputs_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["repro", "promises", "--data", str(tmp_path), "--only", "philly-75"]) == 2
    err = capsys.readouterr().err
    assert "lacks philly/philly.csv.gz, elasticflow/throughputs_A100" in err and "--data" in err
