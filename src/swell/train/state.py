"""Everything that must be the same on all workers and survive a suspend."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from swell.train import codec
from swell.train.loss import LossLog


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
        is_on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
        self.losses = LossLog(is_lazy=not is_on_cpu)  #: of all workers' samples

    def finish_step(self, loss: torch.Tensor) -> None:
        """Apply the gradients that are there and count the step."""
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()  # type: ignore[attr-defined]  # every scheduler of torch has it
        self.steps += 1
        self.losses.add(self.steps, loss)

    def is_finite(self) -> bool:
        """Whether it is worth going on from: a parameter that is no number never becomes one again."""
        trained = [p.detach() for p in self.model.parameters() if p.requires_grad and p.numel() > 0]
        return all(math.isfinite(norm) for norm in torch._foreach_norm(trained, math.inf))

    def encode(self) -> tuple[str, list[torch.Tensor]]:
        """The whole state as a skeleton and tensors (not copied). Raises `codec.EncodeError`."""
        tree: dict[str, codec.Tree] = {
            "steps": self.steps,
            "loss": self.losses.state(),
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
        self.losses.restore(tree["loss"])

    def num_bytes(self) -> int:
        """Bytes that a broadcast of this state moves."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.encode()[1])
