"""Locals of functions that wait for a batch, and globals of modules whose lines do."""

from __future__ import annotations

import sys
from types import FrameType

import torch

from swell.train.state.waiting_functions import WaitingFunction


def test_globals_stay_when_a_module_has_ended() -> None:
    space = {"frame_of": lambda: sys._getframe(1)}
    exec("import torch\nmean = torch.zeros(3)\nown = frame_of()", space)  # noqa: S102 - a script's lines
    function = WaitingFunction()
    assert isinstance(own := space["own"], FrameType)
    function.frame = own
    function.end()
    assert isinstance(space["mean"], torch.Tensor)
