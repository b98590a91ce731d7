"""What a script states of its batch and its end holds where a submission leaves it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swell.api.fields import InvalidField
from swell.api.script_source import ScriptNumbers, read_script
from swell.api.submission import parse
from swell.model.job import EndCondition, JobSpec

NOW_S = 1e9
SCRIPT = """
import torch
from swell import train

BATCH = 48
loader = torch.utils.data.DataLoader(data, BATCH, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=30)
"""


def spec(folder: Path, text: str, **fields: Any) -> JobSpec:
    (folder / "train.py").write_text(text)
    return parse({"script": "train.py", **fields}).to_spec(NOW_S, folder)


@pytest.mark.parametrize(
    ("fields", "batch", "end"),
    [
        ({}, 48, EndCondition(epochs=30.0)),
        ({"global_batch": 64}, 64, EndCondition(epochs=30.0)),
        ({"steps": 100}, 48, EndCondition(steps=100)),
        ({"samples": 100}, 48, EndCondition(samples=100)),
        ({"batch": "32:512"}, 32, EndCondition(epochs=30.0)),
        ({"batch_per_worker": 8}, 8, EndCondition(epochs=30.0)),
        ({"global_batch": 64, "epochs": 2}, 64, EndCondition(epochs=2.0)),
    ],
)
def test_what_a_submission_leaves_out_is_the_scripts(
    tmp_path: Path, fields: dict[str, Any], batch: int, end: EndCondition
) -> None:
    made = spec(tmp_path, SCRIPT, **fields)
    assert (made.global_batch, made.end) == (batch, end)


def test_a_restart_job_takes_nothing_of_its_script(tmp_path: Path) -> None:
    made = spec(tmp_path, SCRIPT, elasticity="restart", estimate="1m")
    assert (made.global_batch, made.end) == (1, EndCondition())


LOADER = "loader = DataLoader(data, batch_size=48)"
CALL = "run = elastic(model, optimizer, loader, steps=5)"


@pytest.mark.parametrize(
    ("text", "batch", "steps"),
    [
        (f"{LOADER}\n{CALL}", 48, 5),
        ("run = elastic(model, optimizer, loader=DataLoader(data, 48), steps=5)", 48, 5),
        (f"def main():\n  n: int = 5\n  {LOADER}\n  {CALL.replace('5', 'n')}", 48, 5),
        (f"{LOADER}\nloader = wrapped(loader)\n{CALL}", None, 5),
        (f"{LOADER}\nfor loader in others: pass\n{CALL}", None, 5),
        (f"{LOADER}\ndef train(loader):\n  {CALL}", None, 5),
        (f"{LOADER}\nfrom data import loader\n{CALL}", None, 5),
        (f"loader, test = DataLoader(data, 48), None\n{CALL}", None, 5),
        (f"loader = DataLoader(data)\n{CALL}", None, 5),
        (f"loader = DataLoader(data, batch_size=args.batch)\n{CALL}", None, 5),
        (f"loader = DataLoader(*of_data, 48)\n{CALL}", None, 5),
        (f"loader = Batches(data, batch_size=48)\n{CALL}", None, 5),
        (f"n = 48\nn += 1\nloader = DataLoader(data, n)\n{CALL}", None, 5),
        (f"{LOADER}\n{CALL.replace('5', '2 * 5')}", 48, None),
        (f"{LOADER}\n{CALL.replace('5', 'True')}", 48, None),
        (f"{LOADER}\n{CALL.replace('5', 'args.steps')}", 48, None),
        (f"{LOADER}\n{CALL}\n{CALL}", None, None),
        (LOADER, None, None),
        ("no Python", None, None),
    ],
)
def test_only_plain_numbers_are_taken(
    tmp_path: Path, text: str, batch: int | None, steps: int | None
) -> None:
    (tmp_path / "train.py").write_text(text)
    assert read_script(str(tmp_path / "train.py")).numbers == ScriptNumbers(batch, None, steps)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "global_batch: missing; .* states it as a number: DataLoader"),
        ({"global_batch": 8}, r"steps: no end condition given; .* states? it as a number: elastic\("),
    ],
)
def test_what_neither_states_is_missing(tmp_path: Path, fields: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidField, match=told):
        text = "from swell.train import elastic\nelastic(model, optimizer, loader, epochs=args.epochs)"
        spec(tmp_path, text, **fields)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(:", r"^script: .*train\.py, line 1: invalid syntax; correct it"),
        ("print(1)", r"^script: .* never calls swell\.train\.elastic, so there is nothing to resize"),
    ],
)
def test_what_is_wrong_with_the_script_is_told_before_what_it_does_not_state(
    tmp_path: Path, text: str, told: str
) -> None:
    with pytest.raises(InvalidField, match=told):
        spec(tmp_path, text)
