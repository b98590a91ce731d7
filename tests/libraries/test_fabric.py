"""A script with Lightning's Fabric learns in a Swell job what it learns by itself."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from tests.libraries.alone import alone
from tests.libraries.refusals import refusal_of
from tests.scripts.gang import FEW_CHANGES, agent_in, outcome_at, outcome_of_a_life

from swell.wire import messages

PRELOADED = ["lightning.fabric"]
SCRIPT = Path(__file__).parent / "scripts" / "with_fabric.py"
GAN = Path(__file__).parent / "scripts" / "fabric_gan.py"


def errors_in(folder: Path) -> list[tuple[int, float]]:
    """What the script's logger has written."""
    [path] = folder.rglob("metrics.csv")
    with path.open(newline="") as file:
        return [(int(row["step"]), round(float(row["error"]), 9)) for row in csv.DictReader(file)]


def test_a_job_learns_what_the_script_does_alone(tmp_path: Path) -> None:
    job = outcome_at(SCRIPT, tmp_path / "job", 2)
    by_itself = alone(SCRIPT, tmp_path / "alone")
    for name, value in by_itself.items():
        assert (job.parameters[name] - value).abs().max() < 1e-9, name
    assert errors_in(tmp_path / "job") == errors_in(tmp_path / "alone")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("script", [SCRIPT, GAN])
def test_a_job_learns_the_same_in_any_life(script: Path, seed: int, tmp_path: Path) -> None:
    job = outcome_of_a_life(script, tmp_path / "life", seed, FEW_CHANGES)
    by_itself = alone(script, tmp_path / "alone")
    if by_itself.pop("scale", None) is not None:  # alone it grows with each optimizer that steps in a batch
        assert job.parameters["scale"] == 2.0 ** (10 + 80 // 7)
    for name, value in by_itself.items():
        assert (job.parameters[name] - value).abs().max() < 1e-9, name
    if script == SCRIPT:
        told, wanted = errors_in(tmp_path / "life"), errors_in(tmp_path / "alone")
        assert set(told) <= set(wanted)
        assert len(wanted) - 1 <= len(told) <= len(wanted)  # one may be lost with a leader that was killed


def test_a_trial_run_of_a_script_that_accumulates_finds_nothing(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"compares": True, "resumes": True, "local_batches": (12, 6, 2)}
    agent = agent_in(tmp_path / "trial", mode="profile", total_steps=None, **fields)
    try:
        agent.start(0, SCRIPT, str(tmp_path / "trial" / "final.pt"))
        assert agent.exit_status(0) == 0, agent.logs()
        told = [said for _, said in agent.all_said(messages.Profiled)][-1]
    finally:
        agent.close()
    assert not told.findings
    assert told.compute_s.keys() == {12, 6, 2}


@pytest.mark.parametrize(
    ("line", "other", "told"),
    [
        ("if elastic else range", "if not elastic else range", "for epoch in fabric.epochs(num_epochs):"),
        (", accumulate=ACCUMULATED", "", "fabric.epochs(accumulate=accum)"),
        ('accelerator="cpu"', 'strategy="fsdp"', "Fabric was given the strategy fsdp"),
        (
            "        if not is_acc",
            "        fabric.all_reduce(loss)\n        if not is_acc",
            "in the loop over the training",
        ),
    ],
)
def test_what_a_job_cannot_have_is_refused(line: str, other: str, told: str, tmp_path: Path) -> None:
    assert told in refusal_of(SCRIPT, line, other, tmp_path)
