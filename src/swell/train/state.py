"""Everything that must be the same on all workers and survive a suspend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from swell.train import codec

#: Weight of the newest step in the running mean of the loss.
LOSS_GAIN_SHARE = 0.1


@runtime_checkable
class Stateful(Protocol):
    """What `scheduler` and the values of `state` must offer."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> Any: ...


class TrainState:
    """Model, optimizer, scheduler, the user's own objects, and how far training has got."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        scheduler: Stateful | None,
        objects: Mapping[str, Stateful],
    ) -> None:
        for name, thing in objects.items():
            if not isinstance(thing, Stateful):
                raise TypeError(
                    f"state[{name!r}] is a {type(thing).__qualname__} without state_dict() and "
                    "load_state_dict(); add the two methods, or leave it out of elastic(state=...)"
                )
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise TypeError(
                "ReduceLROnPlateau cannot be elastic()'s scheduler, for it steps on a metric and not once a "
                "step; give state={'plateau': scheduler} and step it yourself, on all workers with one number"
            )
        self.model = model
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.objects = dict(objects)
        self.steps = 0  #: finished optimizer steps since the job began
        self.loss: torch.Tensor | None = None  #: running mean of the global loss, () on the model's device

    def finish_step(self, loss: torch.Tensor) -> None:
        """Apply the gradients that are there and count the step."""
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()  # type: ignore[attr-defined]  # every scheduler of torch has it
        self.steps += 1
        self.loss = loss if self.loss is None else self.loss + LOSS_GAIN_SHARE * (loss - self.loss)

    def loss_value(self) -> float | None:
        return None if self.loss is None else float(self.loss)

    def encode(self) -> tuple[str, list[torch.Tensor]]:
        """The whole state as a skeleton and tensors (not copied). Raises `codec.EncodeError`."""
        tree: dict[str, codec.Tree] = {
            "steps": self.steps,
            "loss": self.loss_value(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "objects": {name: thing.state_dict() for name, thing in self.objects.items()},
        }
        return codec.encode(tree)

    def load(self, skeleton: str, tensors: list[torch.Tensor]) -> None:
        """Take over another worker's state, in place.

        Raises:
            RuntimeError: the state is of another model, or other objects were registered.
        """
        tree = codec.decode(skeleton, tensors)
        if set(tree["objects"]) != set(self.objects) or (tree["scheduler"] is None) != (
            self.scheduler is None
        ):
            raise RuntimeError(
                f"the state holds the objects {sorted(tree['objects'])} and this script registered "
                f"{sorted(self.objects)}, each with or without a scheduler; run the script that wrote "
                "the state, or start the job anew"
            )
        self.model.load_state_dict(tree["model"])
        self.optimizer.load_state_dict(tree["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(tree["scheduler"])
        for name, thing in self.objects.items():
            thing.load_state_dict(tree["objects"][name])
        self.steps = tree["steps"]
        device = next(self.model.parameters()).device
        self.loss = None if tree["loss"] is None else torch.tensor(tree["loss"], device=device)

    def num_bytes(self) -> int:
        """Bytes that a broadcast of this state moves."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.encode()[1])
