"""Everything that must be the same on all workers and survive a suspend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import torch
from torch import nn

from swell.train.collective.gradients import LoopError
from swell.train.collective.pieces import local
from swell.train.data.sample_schedule import SampleSchedule
from swell.train.data.stateful import Stateful
from swell.train.state import codec
from swell.train.state.gradient_noise import GradientNoise
from swell.train.state.loss import LossLog
from swell.train.state.model_changes import ModelChanges
from swell.train.state.optimizer_set import OptimizerSet, SchedulerSet
from swell.train.state.script_state import LoadGuard, ScriptState
from swell.train.state.script_values import bring_back, copied, keep
from swell.train.state.script_variables import ScriptVariables
from swell.train.state.step_undo import StepUndo

#: Hyperparameters of all groups, and the modes of all modules; empty: these stay as they are.
Settings = tuple[list[dict[str, Any]], str]


class TrainState:
    """Model, optimizer, scheduler, the user's own objects, and how far training has got."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | OptimizerSet,
        scheduler: Stateful | None,
        objects: Mapping[str, Any],
        course: SampleSchedule | None = None,
        rate: Callable[[int], float] | None = None,
        noise: GradientNoise | None = None,
    ) -> None:
        """
        Args:
            course: whose place belongs to the state; without one, steps are counted and no more.
            rate: the factor on the learning rates in a step of this batch; None: 1.
            noise: measures the gradients of each step.
        """
        several = list(scheduler.named.values()) if isinstance(scheduler, SchedulerSet) else [scheduler]
        self.schedulers: list[Stateful] = [each for each in several if each is not None]
        if any(isinstance(each, torch.optim.lr_scheduler.ReduceLROnPlateau) for each in self.schedulers):
            raise TypeError(
                "ReduceLROnPlateau cannot be elastic()'s scheduler, for it steps on a metric and not once a "
                "step; give state={'plateau': scheduler} and step it yourself, on all workers with one number"
            )
        self.model = model
        self._plain_model: nn.Module = getattr(model, "_orig_mod", model)  # what torch.compile wraps
        self.optimizer = optimizer  #: or several, see `OptimizerSet`
        self.optimizers = list(optimizer) if isinstance(optimizer, OptimizerSet) else [optimizer]
        #: One of several optimizers has stepped in a batch that does not count yet.
        self.is_within_batch = False
        self._scaled: list[torch.optim.Optimizer] = []  # that the scaler has stepped in the batch under way
        self.scheduler = scheduler
        self.scaler: torch.amp.GradScaler | None = None  #: of the script, found in its loop
        #: State of a scaler that this worker's script has not used yet.
        self._found_scaler: codec.Tree | None = None
        self.objects = ScriptState(objects)  #: `run.state`
        self.variables = ScriptVariables(
            lambda: [self.model, *self.optimizers, *self.schedulers, self.scaler],
            lambda: [self.scaler, *self.objects.held()],
        )
        self.course = course
        self.rate = rate
        self.noise = noise
        self.steps = 0  #: of the job's own batch, finished since the job began
        #: What the model is made of, apart from its tensors.
        self.forms = ModelChanges(self._plain_model, self.optimizers)
        self._noted: tuple[int, list[Any]] | None = None  # steps, and those that schedulers have counted
        self.is_valid = False  #: it is the job's, and not what this script began with
        self.entered_epoch: int | None = None  #: the last one of which the script has asked for batches
        self._restored: Settings | None = None  # before the script's first batch
        self._guard: LoadGuard | None = None  # of what was restored, before the script begins with it
        self._head_begins = False  # an epoch's, which is not to change again what was restored
        self._buffers: Any = None  # of the model, kept until then
        self._restored_at = ""  # in which part of an epoch what was restored had been saved, see `_point`
        self.undo = StepUndo(self)
        self.is_torn = False  #: part of another worker's state has come, or may have
        is_on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
        self.losses = LossLog(is_lazy=not is_on_cpu)  #: of all workers' samples

    @property
    def updates(self) -> int:
        """Optimizer steps since the job began, of whatever batches they were."""
        return self.steps if self.course is None else self.course.place.step

    def observe(self, num_samples: int) -> None:
        """Measure the noise of the gradients of a step of so many samples, before the script changes them."""
        if self.noise is not None:
            parameters = [parameter for parameter in self.model.parameters() if parameter.grad is not None]
            scale = 1.0 if self.scaler is None else self.scaler.get_scale()
            self.noise.observe(self.updates, num_samples, parameters, scale)

    def apply(self, optimizer: torch.optim.Optimizer) -> None:
        """Apply the gradients of one optimizer's parameters, the same on all workers, and count nothing.

        A scaler takes its factor off first, and leaves the update out where a gradient is inf or NaN. All
        workers have the same gradients, so all find the same. Such a step counts: its samples are gone.
        """
        if self.scaler is not None:
            if any(optimizer is scaled for scaled in self._scaled):
                self.scaler.update()  # as a loop for one process must, which steps it twice
                self._scaled = []
            self._scaled.append(optimizer)
        factor = self.rate_factor
        rates = [] if factor == 1.0 else [group["lr"] for group in optimizer.param_groups]
        for group, rate in zip(optimizer.param_groups, rates, strict=False):
            group["lr"] = rate * factor
        try:
            if self.scaler is None:
                optimizer.step()
            else:
                self.scaler.step(optimizer)
        finally:
            for group, rate in zip(optimizer.param_groups, rates, strict=False):
                group["lr"] = rate

    def finish_batch(self, loss: torch.Tensor | None) -> None:
        """Count the step, whose updates are applied. The course has moved on already."""
        if self.scaler is not None and self._scaled:
            self.scaler.update()
        self.forget_batch()
        self._count_to(self.steps + 1 if self.course is None else self.course.own_steps)
        if loss is not None:
            self.losses.add(self.steps, loss)

    def forget_batch(self) -> None:
        """The batch under way counts, or what several optimizers have changed in it is undone."""
        self.is_within_batch, self._scaled = False, []
        if self.scaler is not None:  # what the script has unscaled, and not stepped
            self.scaler._per_optimizer_states.clear()

    @property
    def rate_factor(self) -> float:
        """Factor on the learning rates in the coming step."""
        return 1.0 if self.rate is None or self.course is None else self.rate(self.course.batch)

    def use_scaler(self, scaler: torch.amp.GradScaler) -> None:
        """The script's loop scales by this: it belongs to the state now.

        Its state may have come before, from a worker or a checkpoint whose script had used its own.

        Raises:
            LoopError: it is a second one.
        """
        if scaler is self.scaler:
            return
        if self.scaler is not None:
            raise LoopError("the loop scales by a second GradScaler; use one for all losses")
        self.scaler = scaler
        if self._found_scaler is not None:
            scaler.load_state_dict(self._found_scaler)
            self._found_scaler = None
        self.undo.keep_scaler()

    def end_epoch(self) -> None:
        """A stream has no more for this epoch: what it has beyond whole steps of the own batch is one."""
        if self.course is not None:
            self.course.end_epoch()
            self._count_to(self.course.own_steps)

    def skip_epoch(self) -> None:
        """End the epoch of a trial run here: steps that it leaves out do not count."""
        assert self.course is not None  # noqa: S101 - a trial run has one
        self.check_schedulers()
        self.course.end_epoch()
        self.steps, self._noted = self.course.own_steps, None

    def _count_to(self, steps: int) -> None:
        """The scheduler is stepped once for each step of the own batch that is done."""
        before, self.steps = self.steps, steps
        if self.scheduler is not None:
            for _ in range(before, steps):
                self.scheduler.step()  # type: ignore[attr-defined]  # every scheduler of torch has it

    def check_schedulers(self) -> None:
        """Raises LoopError, if the script has stepped a scheduler by itself since this was last called."""
        counts = [getattr(scheduler, "last_epoch", None) for scheduler in self.schedulers]
        noted, self._noted = self._noted, (self.steps, counts)
        if noted is None:
            return
        num_steps = self.steps - noted[0]
        pairs = zip(noted[1], counts, strict=True)
        if any(isinstance(old, int) and new != old + num_steps for old, new in pairs):
            raise LoopError(
                "the script calls scheduler.step(), and gave that scheduler to elastic(), which steps it in "
                "each run.step(): it goes too fast. Take the call out, or give elastic() no scheduler"
            )

    def hyperparameters(self) -> list[dict[str, Any]]:
        """Those of all parameter groups."""
        return [group.copy() for group in self.optimizer.param_groups]

    def _settings(self) -> Settings:
        return self.hyperparameters(), self.forms.modes()

    def put_settings(self, settings: Settings) -> None:
        """Give back what they were."""
        hyperparameters, modes = settings
        for group, kept in zip(self.optimizer.param_groups, hyperparameters, strict=False):
            group.update(kept)
        self.forms.set_modes(modes)

    def begin_epochs(self, frame: FrameType | None) -> None:
        """The script enters its loop over epochs: what it sets from now on is of the epoch that begins.

        What was saved is put back here; amid an epoch, once more before its next batch, over that.
        """
        is_between = self._restored_at == "between"
        self.variables.begin_epochs(frame, self._restored_at)
        if self._restored_at != "amid":  # what the head of an epoch loads is for that epoch
            self.forget_loads()
        if is_between:
            self._restored_at = ""
            self.objects.see_all()
            self._put_restored()
        elif self._restored_at:
            self._head_begins = True
            self._buffers = keep([*self.model.buffers()])
            self.objects.begin_step()
            self.objects.keep_objects()

    def forget_loads(self) -> None:
        """The script begins with what was restored, whatever it has loaded since."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.close()

    def leave_boundary(self) -> None:
        """The script gets a batch, or the epoch is over: what was restored before its first one holds."""
        if self._guard is not None:
            self.forget_loads()
        self.variables.leave_boundary()
        if self._head_begins:
            self._head_begins = False
            bring_back(self._buffers)
            self.objects.rewind()
        if self._restored is not None:
            self._put_restored()

    def _put_restored(self) -> None:
        settings, self._restored = self._restored, None
        if settings is not None:
            self.put_settings(settings)

    def script_values(self, frame: FrameType | None = None) -> codec.Tree:
        """Copies of what the script keeps, by the parts of `tree`."""
        return {
            "objects": copied(self.objects.state_dicts()),
            "values": copied(self.objects.values_tree()),
            "variables": self.variables.values(frame),
        }

    def tree(self) -> codec.Tree:
        """The whole state, by part; tensors are not copied."""
        return {
            "steps": self.steps,
            "loss": self.losses.state(),
            "model": self._plain_model.state_dict(),
            **self.forms.tree(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self._found_scaler,
            **{name: None if part is None else part.state_dict() for name, part in self._parts().items()},
            "objects": self.objects.state_dicts(),
            "values": self.objects.values_tree(),
            "variables": self.variables.tree(),
            "point": self._point,
        }

    @property
    def _point(self) -> str:
        """Where in an epoch this state is, or was when it was saved; empty before the first batch of all.

        `amid`: the script has asked for batches of the epoch; `between`: not yet.
        """
        if self.entered_epoch is None or self.course is None:
            return self._restored_at
        return "amid" if self.course.epoch == self.entered_epoch else "between"

    def encode(self) -> tuple[str, list[torch.Tensor]]:
        """The whole state as a skeleton and tensors (not copied); see `tree`. Raises `codec.EncodeError`."""
        return codec.encode(self.tree())

    def copy(self) -> tuple[str, list[torch.Tensor]]:
        """Encode the whole state with copies of its tensors in host memory; see `encode`."""
        skeleton, tensors = self.encode()
        return skeleton, [tensor.to("cpu", copy=True) for tensor in tensors]

    @property
    def is_filled_in_place(self) -> bool:
        """Whether loading the model does no more than copy tensors."""
        return _is_plain(self._plain_model)

    def parameters_by_path(self) -> dict[str, torch.Tensor]:
        """Parameters, by the paths of what optimizers keep of them."""
        found: dict[str, torch.Tensor] = {}
        named = self.optimizer.named if isinstance(self.optimizer, OptimizerSet) else {"": self.optimizer}
        for name, optimizer in named.items():
            parameters = [each for group in optimizer.param_groups for each in group["params"]]
            above = f"optimizer.{name}.state" if name else "optimizer.state"
            found |= {f"{above}.{number}": each for number, each in enumerate(parameters)}
        return found

    def rooms(self, skeleton: str) -> dict[int, torch.Tensor]:
        """The model's own tensors, by their slots in another worker's skeleton: that state may come there.

        From then on, until `load`, the model is neither the one nor the other.
        """
        model = self._plain_model
        if not self.is_filled_in_place:
            return {}
        self.is_torn = True
        held = {local(tensor).data_ptr() for tensor in (*model.parameters(), *model.buffers())}
        own = {key: tensor for key, tensor in model.state_dict().items() if _lies_in(tensor, held)}
        slots: dict[str, object] = codec.slots(skeleton)["model"]
        return {
            slot: local(own[key])
            for key, slot in slots.items()
            if isinstance(slot, codec.Slot) and key in own
        }

    def load(self, skeleton: str, tensors: list[torch.Tensor]) -> None:
        """Take over another worker's state, in place; see `restore`. What is in its room is there already."""
        self.restore(codec.decode(skeleton, tensors))

    def restore(self, tree: codec.Tree) -> None:
        """Take over what `tree` gave, in place.

        Raises:
            RuntimeError: the state is of another model, or of a script that registered something else.
        """
        self._check(tree)
        self.forget_loads()
        self.forms.restore(tree)
        if not _is_same_memory(self._plain_model.state_dict(), tree["model"]):
            self._plain_model.load_state_dict(tree["model"])
        self.optimizer.load_state_dict(tree["optimizer"])
        for optimizer in self.optimizers:
            _lay_out_alike(optimizer)
        self._found_scaler = tree["scaler"] if self.scaler is None else None
        for name, part in self._parts().items():
            if part is not None and tree[name] is not None:
                part.load_state_dict(tree[name])
        self.objects.restore(tree["objects"], tree["values"])
        self._head_begins = False
        self.variables.restore(tree["variables"])
        # Another number, if the own batch is another one now.
        self.steps = tree["steps"] if self.course is None else self.course.own_steps
        self.losses.restore(tree["loss"], self.steps)
        self._restored_at = tree["point"]
        is_waiting = self.variables.is_waiting and self._restored_at
        self._restored = self._settings() if is_waiting else None
        self._noted = None
        self.is_valid, self.is_torn = True, False
        if not self.undo.has_begun and self.updates:
            self._guard = LoadGuard(self.model, [*self.optimizers, *self.schedulers])

    def _parts(self) -> dict[str, Stateful | None]:
        """Parts that a run need not have, unlike model and optimizer; None: it has no such part."""
        parts = {"scheduler": self.scheduler, "noise": self.noise, "place": self.course}
        return parts if self.scaler is None else {**parts, "scaler": self.scaler}

    def _check(self, tree: codec.Tree) -> None:
        """Raises RuntimeError where the script that wrote the state gave something else to `elastic`.

        So it does where the state does not say from where to go on.
        """
        if self.course is not None and tree["place"] is None:
            raise RuntimeError("the state does not say how far the samples have been trained on; start again")
        held = set() if tree["scheduler"] is None else {"scheduler"}
        wanted = set() if self.scheduler is None else {"scheduler"}
        own, objects = set(self.objects.objects), set(tree["objects"])  # others may be given later
        if held != wanted or not own <= objects:
            held, wanted = held | objects, wanted | own
            raise RuntimeError(
                f"the state holds {_listed(held)} beside model and optimizer, and this script registered "
                f"{_listed(wanted)}; run the script that wrote the state, or start the job again"
            )

    def num_bytes(self) -> int:
        """Bytes of the whole state."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.encode()[1])


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


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
    hooks = (
        getattr(hook, "hook", hook)
        for module in model.modules()
        for hooks in (module._load_state_dict_pre_hooks, module._load_state_dict_post_hooks)
        for hook in hooks.values()
    )
    is_own = type(model).load_state_dict is not nn.Module.load_state_dict
    return not is_own and all(hook.__module__.startswith("torch.distributed.fsdp.") for hook in hooks)


def _lies_in(value: object, addresses: set[int]) -> bool:
    return isinstance(value, torch.Tensor) and local(value).data_ptr() in addresses


def _is_same_memory(own: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether two state dicts hold nothing but tensors, and the same ones in memory."""
    return own.keys() == other.keys() and all(
        isinstance(value, torch.Tensor) and _lies_in(own[key], {local(value).data_ptr()})
        for key, value in other.items()
    )
