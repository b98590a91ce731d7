"""Learnt margins beside fixed ones: what is run, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.repro import tiny

from swell.cli import main
from swell_papers.experiment import Context, Key, Results
from swell_papers.margins import FIXED_MARGINS, LEARNT, LOGS, TRUTHS, MarginOutcome, cases, claims_of


def outcome(met: int = 90, promised: int = 100, broken: int = 0) -> MarginOutcome:
    return MarginOutcome(num_jobs=120, met=met, promised=promised, broken=broken)


def test_there_are_twenty_logs_of_seconds_to_hours() -> None:
    assert len({on.name for on in LOGS}) == len(LOGS) == 20


@pytest.mark.slow
def test_every_truth_is_run_with_every_margin(tmp_path: Path) -> None:
    wanted = cases(Context(data=tiny.write(tmp_path / "data")), [tiny.INPUT])
    assert len(wanted) == len(TRUTHS) * (1 + len(FIXED_MARGINS))
    found = {key: run() for key, run in wanted.items()}
    assert all(0 <= one.broken <= one.promised <= one.num_jobs == 3 for one in found.values())


@pytest.mark.parametrize(
    ("learnt", "fixed", "come_out"),
    [
        (outcome(), outcome(), [True, True]),
        (outcome(broken=3), outcome(), [False, True]),
        (outcome(met=80), outcome(), [True, False]),
        (outcome(met=80), outcome(broken=9), [True, True]),
    ],
)
def test_what_breaks_too_many_promises_or_meets_fewer_deadlines_comes_out(
    learnt: MarginOutcome, fixed: MarginOutcome, come_out: list[bool]
) -> None:
    """A fixed margin under which too many promises are broken is no rival."""
    truth = next(truth for truth in TRUTHS if truth.most_share)
    bad = outcome(met=100, broken=9)
    others: dict[Key, MarginOutcome] = {(truth.name, f"{margin}"): bad for margin in FIXED_MARGINS}
    found = Results({(truth.name, LEARNT): learnt, **others, (truth.name, "0.1"): fixed}, 2)
    judged = [claim.judged(found) for claim in claims_of(truth)]
    assert [one is not None and one[-1] for one in judged] == come_out


def test_missing_inputs_and_unknown_truths_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["repro", "margins", "--data", str(tmp_path)]) == 2
    assert "lacks elasticflow/traces/195job.csv" in capsys.readouterr().err
    assert main.run(["repro", "margins", "--data", str(tmp_path), "--only", "rain"]) == 2
    assert "no truth begins so; there are exact, noise .05" in capsys.readouterr().err
