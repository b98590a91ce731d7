"""Models that are refused at every size, and what a script changes of its model while it trains.

Modes of modules (`model.bn.eval()`), buffers that are registered later, which parameters are trained, and
groups of parameters that an optimizer gets later belong to the state: a worker that joins begins with the
script's first lines, and has none of it. Plain attributes are variables of the script, see
`script_variables`. Parameters that are new, gone or others cannot be handed on: they are an error, with its
line, for no process could go on from a checkpoint that has them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from swell.train.collective.gradients import LoopError
from swell.train.collective.norms import StatisticsError
from swell.train.collective.packing import mark_trained, was_trained
from swell.train.collective.pieces import reshard
from swell.train.link.code_paths import place_of_change

#: Calls that change a model, where no attribute is set.
_CHANGES = frozenset({"add_module", "register_module", "register_parameter", "setattr", "add_param_group"})
NOT_OF_MODEL = (
    "add_param_group() got parameters that elastic() did not get with the model: their gradients would not "
    "be averaged, and a worker that joins would not have them. Make all modules before elastic(), and train "
    "them when it is time: by add_param_group() or requires_grad_()"
)
GIVE_ALL = (
    "give elastic() all optimizers that the loop uses by name, elastic(model, {'first': ..., 'second': ...}, "
    "loader), and say in run.step(optimizer) which is to step"
)
REMEDY = (
    "A worker that joins, and a job that goes on later, would not have it so. Make all modules and "
    "parameters before elastic(), and choose between them by a number or a text in an attribute of the "
    "model, or by requires_grad_(), which go on"
)


class ModelChanges:
    """One worker's model, compared with what `elastic` got."""

    def __init__(self, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer] = ()) -> None:
        self._model, self._optimizers = model, optimizers
        self._parameters, self._buffers = _parameters_of(model), _buffers_of(model)
        self._sizes = [_sizes_of(optimizer) for optimizer in optimizers]
        for number, optimizer in enumerate(optimizers):
            adds = partial(self._add_group, number, optimizer.add_param_group)
            optimizer.add_param_group = adds  # type: ignore[method-assign]
        self._former = WeakSet(_optimizers_here())  # those made before `elastic`
        self._num_holders: list[int] = []  # of each optimizer, when an epoch began last
        self._modes_left = ""  # when the last epoch ended; empty: one is under way
        self._has_left = False

    # ------------------------------------------------------------------ what is handed on
    def tree(self) -> dict[str, Any]:
        """What is handed on. Parameters are told by their places among the model's."""
        modules: dict[str, Any] = {"modes": self._modes_left or self.modes()}
        own = _buffers_of(self._model)
        if buffers := [name for name, form in own.items() if self._buffers.get(name) != form]:
            modules["buffers"] = buffers
        parameters = list(self._model.parameters())
        place_of = {id(parameter): place for place, parameter in enumerate(parameters)}
        trained = [place for place, parameter in enumerate(parameters) if parameter.requires_grad]
        ever = [place for place, each in enumerate(parameters) if each.requires_grad or was_trained(each)]
        return {
            "modules": modules,
            "groups": [
                [[place_of[id(parameter)] for parameter in group["params"]] for group in self._added(number)]
                for number in range(len(self._optimizers))
            ],
            "trained": [trained, ever],
        }

    def restore(self, tree: Mapping[str, Any]) -> None:
        """Take over what `tree` gave, before the model's tensors and the state of optimizers are loaded."""
        own, parameters = _buffers_of(self._model), list(self._model.parameters())
        for name in tree["modules"].get("buffers", ()):
            path, _, key = name.rpartition(".")
            saved = tree["model"][name]
            if own.get(name) != (saved.shape, saved.dtype):
                room = torch.empty_like(saved, device=parameters[0].device)
                self._model.get_submodule(path).register_buffer(key, room)
        self.set_modes(tree["modules"]["modes"])
        for number, groups in enumerate(tree["groups"]):
            for group in groups[len(self._added(number)) :]:
                self._optimizers[number].add_param_group({"params": [parameters[place] for place in group]})
        trained, ever = tree["trained"]
        mark_trained(parameters[place] for place in ever)
        for place, parameter in enumerate(parameters):
            parameter.requires_grad_(place in trained)

    def _added(self, number: int) -> list[dict[str, Any]]:
        """The groups that an optimizer has got beyond those that it began with."""
        return self._optimizers[number].param_groups[len(self._sizes[number]) :]

    def _add_group(self, number: int, add: Callable[[dict[str, Any]], None], group: dict[str, Any]) -> None:
        """Do what `add_param_group` does, unless the group has come with the state already."""
        given = group["params"]
        members = [given] if isinstance(given, torch.Tensor) else list(given)
        parameters = [id(member[1] if isinstance(member, tuple) else member) for member in members]
        if not {place for place, *_ in self._parameters.values()}.issuperset(parameters):
            raise ValueError(NOT_OF_MODEL)
        if parameters not in [[id(member) for member in known["params"]] for known in self._added(number)]:
            add({**group, "params": members})

    def modes(self) -> str:
        """Return a 1 for each module that trains, and a 0 for each that evaluates."""
        return "".join(["01"[module.training] for module in self._model.modules()])

    def set_modes(self, modes: str) -> None:
        for module, mode in zip(self._model.modules(), modes, strict=False):
            if module.training != (mode == "1"):
                module.training = mode == "1"

    # ------------------------------------------------------------------ what is refused
    def leave(self) -> None:
        """Training is over, and the script may do with the model what it will."""
        self._has_left = True

    def begin_epoch(self, frame: FrameType | None, held: Iterable[object]) -> None:
        """The script asks for the first batch of an epoch. Raises LoopError: what it has changed is refused.

        Args:
            held: what the script has given to `run.state`.
        """
        self._modes_left = ""
        self._look_at_optimizers(held)
        self.look(frame)

    def _look_at_optimizers(self, held: Iterable[object]) -> None:
        """Raises LoopError: the script has another optimizer of the model in place of one that `elastic` got.

        It takes effect on no gradient, so no comparison finds it. Without this
        `tests/scripts/refused/optimizer_replaced.py` goes on with the first one in silence.
        """
        before, self._num_holders = self._num_holders, [sys.getrefcount(each) for each in self._optimizers]
        if all(now >= then for now, then in zip(self._num_holders, before, strict=False)):
            return  # the script has let go of none
        gc.collect()  # it may have thrown the other one away
        trained = {id(parameter) for parameter in self._model.parameters()}
        known = {id(each) for each in (*self._former, *held)}
        for each in _optimizers_here():
            groups = () if id(each) in known else getattr(each, "param_groups", ())
            if any(id(one) in trained for group in groups for one in group["params"]):
                raise LoopError(
                    f"the script has another optimizer ({type(each).__qualname__}) in place of one that "
                    "elastic() got, which run.step() steps; to begin with new moments call its "
                    "state.clear(), to change a rate set param_groups[0]['lr']; to go over to another "
                    f"optimizer make both before elastic() and {GIVE_ALL}"
                )

    def leave_epoch(self) -> None:
        """The script has had the last batch of an epoch: what it evaluates then ends with it."""
        self._modes_left = self.modes()

    def look(self, frame: FrameType | None) -> None:
        """Raises LoopError: the model has changed in a way that cannot be handed on."""
        if self._has_left:
            return
        reshard(self._model)
        for what, name in self._strange_tensors():
            place = place_of_change(frame, name.split(".")[:-3:-1], _CHANGES)
            raise LoopError(f"{what}{place and f' ({place})'}. {REMEDY}")

    def _strange_tensors(self) -> Iterator[tuple[str, str]]:
        """What has become of a parameter, a buffer or a group of an optimizer, and a name of it."""
        known, now = self._parameters, _parameters_of(self._model)
        for name, form in now.items():
            if name not in known:
                yield f"the model's parameter {name!r} is new since elastic()", name
            elif known[name] != form:
                yield f"the model's parameter {name!r} is another one than elastic() got", name
        for name in sorted({*known, *self._buffers} - {*now, *_buffers_of(self._model)}):
            yield f"the model's {name!r}, which elastic() got, is gone", name
        sizes = map(_sizes_of, self._optimizers)
        if any(size[: len(own)] != own for size, own in zip(sizes, self._sizes, strict=True)):
            yield "a parameter group of an optimizer has other parameters than elastic() got", "params"


def _parameters_of(model: nn.Module) -> dict[str, tuple[int, torch.Size, torch.dtype]]:
    """Each parameter by its names: which it is, its shape and type."""
    named = model.named_parameters(remove_duplicate=False)
    return {name: (id(each), each.shape, each.dtype) for name, each in named}


def _buffers_of(model: nn.Module) -> dict[str, tuple[torch.Size, torch.dtype]]:
    """Shape and type of each buffer that is saved."""
    return {
        f"{path}.{key}" if path else key: (buffer.shape, buffer.dtype)
        for path, module in model.named_modules(remove_duplicate=False)
        for key, buffer in saved_buffers(module)
    }


def saved_buffers(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each buffer of one module that is saved with it, after its name."""
    left_out = getattr(module, "_non_persistent_buffers_set", ())  # a scripted module has none
    for key, buffer in module.named_buffers(recurse=False, remove_duplicate=False):
        if key not in left_out:
            yield key, buffer


def _optimizers_here() -> list[torch.optim.Optimizer]:
    """All of this process."""
    return [each for each in gc.get_objects() if issubclass(type(each), torch.optim.Optimizer)]


def _sizes_of(optimizer: torch.optim.Optimizer) -> list[int]:
    return [len(group["params"]) for group in optimizer.param_groups]


def check_model(model: nn.Module) -> None:
    """Raises TypeError if part of the model does what elastic() does, or cannot be summed over workers.

    A SyncBatchNorm is a StatisticsError.
    """
    for name, module in model.named_modules():
        named = f"the model's module {name!r}" if name else "the model"
        if isinstance(module, DistributedDataParallel) or type(module).__name__ == "FullyShardedDataParallel":
            raise TypeError(
                f"{named} is a {type(module).__name__}, which averages gradients over workers as elastic() "
                "does, but without regard to how many samples each has; give elastic() the module within "
                "it, `model.module`, and call that in the loop"
            )
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse:
            raise TypeError(
                f"{named} is an {type(module).__name__} with sparse=True; swell.train sums dense gradients "
                "only: build it with sparse=False, and use Adam in place of SparseAdam"
            )
        if isinstance(module, nn.SyncBatchNorm):
            raise StatisticsError(
                f"{named} is a SyncBatchNorm, whose group of workers would have to change while the job "
                "trains; use nn.BatchNorm, whose running statistics are averaged over the workers, or a "
                "norm that does not look at other samples, such as nn.GroupNorm"
            )
        _check_tensors(named, module)


def _check_tensors(named: str, module: nn.Module) -> None:
    """Raises TypeError for a parameter or a buffer that could not be saved or sent to a new worker."""
    for key, tensor in (*module.named_parameters(recurse=False), *saved_buffers(module)):
        if tensor.is_meta:
            raise TypeError(
                f"{named} has {key!r} on the meta device, without values; give it values before elastic(), "
                "with to_empty() and an initialisation, or build the module on a device"
            )
        if tensor.layout != torch.strided:
            raise TypeError(
                f"{named} has {key!r} as a {tensor.layout} tensor; only dense tensors can be saved and sent "
                "to new workers: use to_dense(), or register the buffer with persistent=False if each "
                "worker computes it for itself"
            )
