"""Everything that must be the same on all workers and survive a suspend."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import nn

from swell.train.collective.packing import squared_norm
from swell.train.data.sample_schedule import SampleSchedule
from swell.train.data.stateful import Stateful
from swell.train.data.stream_schedule import AnyCourse, StreamSchedule
from swell.train.scaling import PartNorms, ScaledRate
from swell.train.state import codec
from swell.train.state.loss import LossLog


class TrainState:
    """Model, optimizer, scheduler, the user's own objects, and how far training has got."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        scheduler: Stateful | None,
        objects: Mapping[str, Stateful],
        scaler: torch.amp.GradScaler | None = None,
        course: AnyCourse | None = None,
        rate: ScaledRate | None = None,
    ) -> None:
        """
        Args:
            course: whose place belongs to the state; without one, steps are counted and no more.
            rate: scales the learning rates by the batch of each step.
        """
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
        if scaler is not None and not isinstance(scaler, torch.amp.GradScaler):
            raise TypeError(
                f"elastic() was given a {type(scaler).__qualname__} as scaler; give it a torch.amp.GradScaler"
            )
        self.model = model
        self._plain_model: nn.Module = getattr(model, "_orig_mod", model)  # what torch.compile wraps
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.scaler = scaler
        self.objects = dict(objects)
        self.course = course
        self.rate = rate
        self.steps = 0  #: of the job's own batch, finished since the job began
        self.is_valid = False  #: it is the job's, and not what this script began with
        self.is_torn = False  #: part of another worker's state has come, or may have
        is_on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
        self.losses = LossLog(is_lazy=not is_on_cpu)  #: of all workers' samples

    @property
    def updates(self) -> int:
        """Optimizer steps since the job began, of whatever batches they were."""
        return self.steps if self.course is None else self.course.place.step

    def finish_step(
        self, loss: torch.Tensor, clip_grad_norm: float | None = None, parts: PartNorms | None = None
    ) -> None:
        """Apply the gradients that are there, the same on all workers, and count the step.

        The course has moved on already.

        A scaler takes its factor off them first, and leaves the update out where one is inf or NaN: all
        workers have the same gradients, so all find the same. Such a step counts, for its samples are gone.
        """
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        if self.rate is not None and self.course is not None:
            self.rate.batch = self.course.batch
            if self.rate.needs_parts and parts is not None:
                self._show(self.rate, parts)
        if clip_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip_grad_norm)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self._count_to(self.steps + 1 if self.course is None else self.course.own_steps)
        self.losses.add(self.steps, loss)

    def _show(self, rate: ScaledRate, parts: PartNorms) -> None:
        """What the gradients of the parts say of noise: a scaler's factor is still on them."""
        factor = 1.0 if self.scaler is None else self.scaler.get_scale()
        unscaled = parts._replace(squared_norm=parts.squared_norm / factor**2)
        rate.observe_parts(unscaled, float(squared_norm(self.model.parameters())))

    def end_epoch(self) -> None:
        """A stream has no more for this epoch: what it has beyond whole steps of the own batch is one."""
        if self.course is not None:
            self.course.end_epoch()
            self._count_to(self.course.own_steps)

    def _count_to(self, steps: int) -> None:
        """The scheduler is stepped once for each step of the own batch that is done."""
        before, self.steps = self.steps, steps
        if self.scheduler is not None:
            for _ in range(before, steps):
                self.scheduler.step()  # type: ignore[attr-defined]  # every scheduler of torch has it

    def is_finite(self) -> bool:
        """Whether it is worth going on from: a parameter that is no number never becomes one again."""
        trained = [p.detach() for p in self.model.parameters() if p.requires_grad]
        return all(_is_finite(parameter) for parameter in trained)

    def tree(self) -> codec.Tree:
        """The whole state, by part; tensors are not copied."""
        return {
            "steps": self.steps,
            "loss": self.losses.state(),
            "model": self._plain_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            **{name: None if part is None else part.state_dict() for name, part in self._options().items()},
            "objects": {name: thing.state_dict() for name, thing in self.objects.items()},
            **({"place": self.course.state_dict()} if isinstance(self.course, SampleSchedule) else {}),
        }

    def encode(self) -> tuple[str, list[torch.Tensor]]:
        """The whole state as a skeleton and tensors (not copied). Raises `codec.EncodeError`."""
        return codec.encode(self.tree())

    def rooms(self, skeleton: str) -> dict[int, torch.Tensor]:
        """The model's own tensors, by their slots in another worker's skeleton: that state may come there.

        From then on, until `load`, the model is neither the one nor the other.
        """
        model = self._plain_model
        if not _is_plain(model):
            return {}
        self.is_torn = True
        held = {tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())}
        own = {key: tensor for key, tensor in model.state_dict().items() if _lies_in(tensor, held)}
        slots: dict[str, object] = codec.slots(skeleton)["model"]
        return {slot: own[key] for key, slot in slots.items() if isinstance(slot, codec.Slot) and key in own}

    def load(self, skeleton: str, tensors: list[torch.Tensor]) -> None:
        """Take over another worker's state, in place; see `restore`. What is in its room is there already."""
        self.restore(codec.decode(skeleton, tensors))

    def restore(self, tree: codec.Tree) -> None:
        """Take over what `tree` gave, in place.

        Raises:
            RuntimeError: the state is of another model, or of a script that registered something else.
        """
        self._check(tree)
        if not _is_same_memory(self._plain_model.state_dict(), tree["model"]):
            self._plain_model.load_state_dict(tree["model"])
        self.optimizer.load_state_dict(tree["optimizer"])
        _lay_out_alike(self.optimizer)
        for name, part in self._options().items():
            if part is not None:
                part.load_state_dict(tree[name])
        for name, thing in self.objects.items():
            thing.load_state_dict(tree["objects"][name])
        self.steps = tree["steps"]
        if isinstance(self.course, SampleSchedule) and "place" in tree:
            self.course.load_state_dict(tree["place"])
            self.steps = self.course.own_steps  # another number, if the own batch is another one now
        elif isinstance(self.course, SampleSchedule):  # of an earlier version, whose batch never changed
            self.course.go_to(self.steps)
        self.losses.restore(tree["loss"], self.steps)
        self.is_valid, self.is_torn = True, False

    def _options(self) -> dict[str, Stateful | None]:
        """What a script may have given to `elastic`, or not."""
        stream = self.course if isinstance(self.course, StreamSchedule) else None
        rate = {} if self.rate is None else {"rate": self.rate}
        return {"scheduler": self.scheduler, "scaler": self.scaler, "stream": stream, **rate}

    def _check(self, tree: codec.Tree) -> None:
        """Raises RuntimeError where the script that wrote the state gave something else to `elastic`."""
        held = {name for name in (*self._options(), "rate") if tree.get(name) is not None}
        held |= set(tree["objects"])
        wanted = {name for name, part in self._options().items() if part is not None} | set(self.objects)
        if held != wanted:
            raise RuntimeError(
                f"the state holds {_listed(held)} beside model and optimizer, and this script registered "
                f"{_listed(wanted)}; run the script that wrote the state, or start the job anew"
            )

    def num_bytes(self) -> int:
        """Bytes that a broadcast of this state moves."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.encode()[1])


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _is_finite(tensor: torch.Tensor) -> bool:
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return tensor.numel() == 0 or all(math.isfinite(bound) for bound in torch.aminmax(real))  # NaN is either


@torch.no_grad()
def _lay_out_alike(optimizer: torch.optim.Optimizer) -> None:
    """Give what is kept for a parameter its memory format, as the optimizer has made it.

    Tensors travel in one piece. A fused optimizer takes for granted that the two are alike: it would update
    each element with the moments of another.
    """
    for parameter, kept in optimizer.state.items():
        for key, value in kept.items():
            if not isinstance(value, torch.Tensor) or value.shape != parameter.shape:
                continue
            if value.stride() != parameter.stride():
                kept[key] = torch.empty_like(parameter, dtype=value.dtype, device=value.device).copy_(value)


def _is_plain(model: nn.Module) -> bool:
    """Whether loading a state dict does no more than copy tensors, as far as one can see."""
    return type(model).load_state_dict is nn.Module.load_state_dict and not any(
        module._load_state_dict_pre_hooks or module._load_state_dict_post_hooks for module in model.modules()
    )


def _lies_in(value: object, addresses: set[int]) -> bool:
    return isinstance(value, torch.Tensor) and value.data_ptr() in addresses


def _is_same_memory(own: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether two state dicts hold nothing but tensors, and the same ones in memory."""
    return own.keys() == other.keys() and all(
        isinstance(value, torch.Tensor) and _lies_in(own[key], {value.data_ptr()})
        for key, value in other.items()
    )
