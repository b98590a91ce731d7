"""Errors that Swell raises on purpose are one line in a script that runs by itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.data.loader import check_loader
from swell.train.runtime import script_frames


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(script_frames, "_hook_before", [])
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    script_frames.tell_own_errors_briefly()
    script_frames.tell_own_errors_briefly()  # a second run of a script changes nothing
    yield


def told(text: str, script: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What is printed of a script that ends with an error."""
    script.write_text(text)
    try:
        exec(compile(text, str(script), "exec"), {"check_loader": check_loader})  # noqa: S102 - our text
    except Exception as error:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(type(error), error, error.__traceback__)
    return capsys.readouterr().err


@pytest.mark.usefixtures("hooked")
def test_an_error_of_swells_own_is_a_line_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "def load():\n    check_loader(3)\nload()\n"
    line = told(text, tmp_path / "train.py", capsys)
    assert line.startswith("train.py:2: LoaderError: ") and line.count("\n") == 1, line


@pytest.mark.usefixtures("hooked")
@pytest.mark.parametrize(
    "text", ["1 / 0\n", "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError from e\n"]
)
def test_other_errors_have_their_traceback(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        told(text, tmp_path / "train.py", capsys).count("Traceback (most recent call last):")
        == text.count("raise") + 1
    )


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"model": None}, "a NoneType as model"),
        ({"model": lambda x: x}, "a function as model"),
        ({"optimizer": None}, "a NoneType as optimizer"),
        ({"optimizer": "adam"}, "a str as optimizer"),
        ({"optimizer": torch.optim.SGD}, "the class SGD as optimizer"),
        ({"optimizer": {"g": 3}}, "a int as optimizer"),
        ({"optimizer": {}}, "a dict as optimizer"),
        ({"scheduler": 3}, "a int as scheduler"),
        ({"scheduler": StepLR}, "the class StepLR as scheduler"),
        ({"state": [1]}, "a list as state"),
    ],
)
def test_an_argument_that_is_no_such_thing_is_named(given: dict[str, object], name: str) -> None:
    model = nn.Linear(1, 1)
    right: dict[str, Any] = {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loader": DataLoader(TensorDataset(torch.zeros(4, 1)), batch_size=2),
        "steps": 1,
    }
    with pytest.raises(TypeError, match=rf"elastic\(\) was given {name}; give it"):
        train.elastic(**(right | given))
