"""Locals of functions that wait for a batch, and globals of modules whose lines do."""

from __future__ import annotations

import sys
from typing import Any

import torch

from swell.train.state.script_search import WaitingFunction


def test_globals_stay_when_a_module_has_ended() -> None:
    space: dict[str, Any] = {"frame_of": lambda: sys._getframe(1)}
    exec("import torch\nmean = torch.zeros(3)\nown = frame_of()", space)  # noqa: S102 - a script's lines
    function = WaitingFunction()
    function.frame = space["own"]
    function.end()
    assert isinstance(space["mean"], torch.Tensor)
