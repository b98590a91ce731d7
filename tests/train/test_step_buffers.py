"""Buffers that a pass changes are again what they were, where the step comes again or has another pass."""

from __future__ import annotations

import torch
from torch import nn

from swell.train.collective.norms import StepBuffers


class Counting(nn.Module):
    in_place: torch.Tensor
    replaced: torch.Tensor
    still: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("in_place", torch.zeros(2))
        self.register_buffer("replaced", torch.zeros(2))
        self.register_buffer("still", torch.ones(2))
        self.register_buffer("absent", None)
        self.norm = nn.BatchNorm1d(2)

    def change(self) -> None:
        self.in_place += 1
        self.replaced = self.replaced + 1


def test_a_step_changes_a_buffer_once_whatever_its_passes_and_attempts() -> None:
    model = Counting()
    still, buffers = model.still, StepBuffers(model)
    for step in range(1, 4):
        buffers.begin()
        for _ in range(3):
            model.change()
            buffers.rewind()
        model.change()
        assert model.in_place.tolist() == model.replaced.tolist() == [step, step]
    assert model.still is still


def test_what_is_loaded_between_two_steps_is_what_the_next_begins_with() -> None:
    model = Counting()
    buffers = StepBuffers(model)
    buffers.begin()
    model.change()
    model.load_state_dict({**model.state_dict(), "in_place": torch.full((2,), 7.0)})
    buffers.begin()
    model.change()
    buffers.rewind()
    assert model.in_place.tolist() == [7.0, 7.0]
