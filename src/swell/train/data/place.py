"""A place in the course of a run: how far its samples have been trained on.

What the next step takes follows from the place and from the batch of now, so the batch may be another one at
each step: the next step begins where the one before ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

#: `total_steps` of a run that ends with an epoch, after as many steps as that turns out to have.
UNBOUNDED = 2**62


@dataclass(slots=True)
class Place:
    """Where the next step begins. It travels with the state."""

    epoch: int = 0
    start: int = 0  #: samples of the epoch that were trained on
    step: int = 0  #: that begins here: the updates so far
    order: int | None = None  #: `Share.order` of the step before, in the same epoch
    origin: dict[str, Any] | None = None  #: a stream's own account of a place up to here, if it gives one
    steps_before: int = 0  #: of the own batch, in the epochs before
    samples_before: int = 0  #: in the epochs before

    def state_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.order = self.origin = None
        for name, value in state.items():
            setattr(self, name, value)


def num_steps_in(rest: int, batch: int) -> int:
    """Steps that so many samples of an epoch make."""
    return -(-rest // batch)
