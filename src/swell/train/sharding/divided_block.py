"""A block of a model, of whose parameters each worker keeps a part, and all of them while it computes.

What torch calls FSDP. The module and its parameters stay the objects that the script made. While the block
does not compute, its parameters have no memory: each is one number that is no number, seen in its shape. The
block gathers them when it is called, and once more when its backward pass wants them; a graph holds no
parameter in the meantime, but says where in the block it lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from swell.train.collective.gradients import LoopError
from swell.train.sharding.away import away_classes
from swell.train.sharding.large_buffers import LargeBuffers

#: Torch's name of what tells which hooks for saved tensors are in force. Torch below 2.8 does not have it.
TOP_HOOKS = "_top_saved_tensors_default_hooks"

WRITTEN = (
    "the forward pass of the block {name!r} writes to its parameters, which would be lost, for elastic() got "
    "shard=[...]: take out what does, such as a limit of weights, or use shard='optimizer'"
)
CHANGED = (
    "a parameter of the block {name!r} has another gradient than run.backward() has given it, and summed, "
    "for elastic() got shard=[...]: the script sets it by hand or takes it away, or sets requires_grad "
    "within a batch; set requires_grad before `for batch in run.batches():`, or use shard='optimizer'"
)


class Exchange(Protocol):
    """How a block's parameters come from the workers that keep them, and gradients to these."""

    def gather(self, block: DividedBlock) -> torch.Tensor:
        """All parameters of the block, flat, in memory of their own."""

    def reduce(self, block: DividedBlock, gradient: torch.Tensor) -> torch.Tensor:
        """Sum a flat gradient of the whole block over the workers; returns what this worker holds of it."""


class DividedBlock:
    """One block; whole until it is told otherwise."""

    def __init__(
        self,
        number: int,
        name: str,
        module: nn.Module,
        parameters: Sequence[nn.Parameter],
        buffers: LargeBuffers,
    ) -> None:
        """
        Args:
            parameters: with one dtype and device; no other module has them.
            buffers: for what is gathered, of all blocks.
        """
        self.buffers = buffers
        self.number, self.name = number, name  #: among the blocks, and in the model
        self.parameters = list(parameters)
        self.dtype, self.device = parameters[0].dtype, parameters[0].device
        self.num_elements = sum(parameter.numel() for parameter in parameters)
        #: None: this worker has all there is, and there are no others.
        self.exchange: Exchange | None = None
        self.factor = 1.0  #: of the gradients of the pass under way
        #: Of the passes of this step, summed over the workers: what this worker keeps. None: there is none.
        self.gradient: torch.Tensor | None = None
        self.has_gradient = [False] * len(parameters)  #: by parameter, in any pass here
        #: Called with the block before it is gathered for a backward pass, or once it has a gradient there.
        self.on_backward: Callable[[DividedBlock], None] = lambda block: None
        self.is_away = False  #: the parameters are not here, or just while they are gathered
        self._full: torch.Tensor | None = None  # gathered
        self._num_entered = 0
        self._has_begun = False  # a step, in this process
        self.is_reduced = False  #: in this backward pass
        self._hooks: list[AbstractContextManager[None]] = []
        self._ready: set[int] = set()  # places of parameters with a gradient in this backward pass
        self._watched: set[int] = set()
        #: All elements of what is away.
        self._nothing = torch.full((), math.nan, dtype=self.dtype, device=self.device)
        self._here = [type(parameter) for parameter in parameters]  # classes, of the script
        names = {id(parameter): within for within, parameter in module.named_parameters()}
        full_names = [f"{name}.{names[id(parameter)]}".lstrip(".") for parameter in parameters]
        away = [away_classes(full_name) for full_name in full_names]
        self._away = [kind for kind, _ in away]
        self._no_gradients = [  # what is in place of gradients that were taken
            self._nothing.expand(parameter.shape).as_subclass(kind)
            for parameter, (_, kind) in zip(parameters, away, strict=True)
        ]
        self._gathered: list[tuple[int, int]] = []  # by parameter: where its memory is, and its version
        self._taken: set[int] = set()  # places of parameters whose gradient was taken
        module.register_forward_pre_hook(lambda *_: self._enter(), prepend=True)
        module.register_forward_hook(lambda _, __, output: self._leave(output), always_call=True)

    # ---------------------------------------------------------------- where the parameters are
    def send_away(self) -> None:
        """The parameters' memory is given up: what this worker keeps of them lies elsewhere."""
        self.is_away = True
        if self._num_entered and self._full is not None:  # amid its forward pass, where no step changes them
            return
        self._full = None
        self._point_to([self._nothing.expand(parameter.numel()) for parameter in self.parameters])
        for parameter, kind in zip(self.parameters, self._away, strict=True):
            parameter.__class__ = kind

    def bring(self, values: Sequence[torch.Tensor]) -> None:
        """The parameters are here from now on: one flat tensor for each."""
        self.is_away, self._full = False, None
        self._point_to(values)

    def gather(self) -> torch.Tensor:
        """All of the parameters, flat. They are seen in the module until `release`."""
        if self._full is not None:
            return self._full
        assert self.exchange is not None  # noqa: S101 - something is away
        full = self.exchange.gather(self)
        if self.is_away:  # else all have come meanwhile, for there are no others left
            self._full = full
            self._point_to(self.split(full))
            self._gathered = self._written()
        return full

    def release(self) -> None:
        """Raises LoopError where the script has changed the parameters meanwhile."""
        if self.is_away and self._full is not None and not self._num_entered:
            is_changed = self._gathered != self._written()
            self.send_away()
            if is_changed:
                raise LoopError(WRITTEN.format(name=self.name))

    def _point_to(self, values: Sequence[torch.Tensor]) -> None:
        for parameter, kind, part in zip(self.parameters, self._here, values, strict=True):
            parameter.__class__ = kind
            parameter.data = part.view(parameter.shape)

    def _written(self) -> list[tuple[int, int]]:
        """What changes if the script changes a parameter."""
        return [(each.data_ptr(), each._version) for each in self.parameters]

    def empty(self, size: int | None = None) -> torch.Tensor:
        """Room for so many of its elements, or for all, flat."""
        return self.buffers.empty(self.num_elements if size is None else size, self.dtype, self.device)

    def split(self, flat: torch.Tensor) -> tuple[torch.Tensor, ...]:
        parts: tuple[torch.Tensor, ...] = flat.split([parameter.numel() for parameter in self.parameters])
        return parts

    # ---------------------------------------------------------------- forward
    def _enter(self) -> None:
        if not self._has_begun:
            raise LoopError(
                f"the script calls the block {self.name!r} between elastic() and its first batch, and "
                "elastic() got shard=[...]: a worker that joins later would call it alone; call the model "
                "before elastic(), or once the loop has begun"
            )
        self._num_entered += 1
        if not self.is_away:
            return
        self.gather()
        outer = getattr(torch._C._autograd, TOP_HOOKS)(True)
        keep, find = outer if outer is not None else (lambda tensor: tensor,) * 2
        hooks = saved_tensors_hooks(lambda tensor: self._pack(tensor, keep, find), lambda found: found())
        hooks.__enter__()
        self._hooks.append(hooks)

    def _leave(self, output: Any) -> None:
        self._num_entered -= 1
        if self._hooks:
            for node in _nodes_of(output):  # also where nothing is kept, as in a checkpoint of a part of it
                node.register_prehook(lambda _: self._begin_backward())
            self._hooks.pop().__exit__(None, None, None)
            if not self._hooks and torch._C._current_graph_task_id() == -1:  # else a backward pass wants it
                self.release()

    def _pack(
        self, tensor: torch.Tensor, keep: Callable[[torch.Tensor], Any], find: Callable[[Any], torch.Tensor]
    ) -> Callable[[], torch.Tensor]:
        """What finds a tensor that a graph wants again: a place in the block, or hooks outside of it."""
        full = self._full
        is_plain = tensor.layout is torch.strided and not tensor.is_conj() and not tensor.is_neg()
        if (
            is_plain
            and full is not None
            and tensor.untyped_storage().data_ptr() == full.untyped_storage().data_ptr()
        ):
            place = tensor.shape, tensor.stride(), int(tensor.storage_offset())
            return partial(self._find_again, tensor.dtype, *place)
        return partial(find, keep(tensor))

    def _find_again(self, dtype: torch.dtype, *place: Any) -> torch.Tensor:
        self.on_backward(self)
        return self.gather().view(dtype).as_strided(*place)

    # ---------------------------------------------------------------- backward
    def begin_step(self, factor: float) -> None:
        """Forget what a step before has left. `factor`: of the gradients of its first pass."""
        self.gradient, self.has_gradient, self.factor = None, [False] * len(self.parameters), factor
        self._has_begun = True
        if self.exchange is not None:
            for parameter in self.parameters:
                parameter.grad = None  # of a step in which this worker was alone
        self.abandon_backward()
        for place, parameter in enumerate(self.parameters):
            if parameter.requires_grad and place not in self._watched:
                self._watched.add(place)
                parameter.register_hook(lambda _, place=place: self._make_way(place))
                parameter.register_post_accumulate_grad_hook(lambda _, place=place: self._note(place))

    def abandon_backward(self) -> None:
        self._forget_taken()
        self._ready.clear()
        self._hooks.clear()
        self._num_entered, self.is_reduced = 0, False
        self.release()

    def _begin_backward(self) -> None:
        if self.is_away and torch._C._current_graph_task_id() != -1:
            self.on_backward(self)
            self.gather()

    def _make_way(self, place: int) -> None:
        """A parameter gets one more gradient of this step."""
        if place in self._taken:
            self._check_taken(place)
            self.parameters[place].grad = None
            self._taken.remove(place)

    def _check_taken(self, place: int) -> None:
        expected = self._no_gradients[place] if place in self._taken else None
        if self.parameters[place].grad is not expected:
            raise LoopError(CHANGED.format(name=self.name))

    def _forget_taken(self) -> None:
        for place in self._taken:
            self.parameters[place].grad = None
        self._taken.clear()

    def end_pass(self) -> None:
        """The script's pass is over. Raises LoopError where it has changed gradients that were summed."""
        if self.exchange is not None:
            for place in range(len(self.parameters)):
                self._check_taken(place)
        self._forget_taken()

    def _note(self, place: int) -> None:
        """A parameter has its gradient of this pass."""
        if self.exchange is None or torch._C._current_graph_task_id() == -1:
            return
        self._ready.add(place)
        self.on_backward(self)
        if len(self._ready) == sum(parameter.requires_grad for parameter in self.parameters):
            self.reduce()

    def contains(self, block: DividedBlock) -> bool:
        """Whether a block lies within this one, or is it: this one may compute more once that one has."""
        return not self.name or f"{block.name}.".startswith(f"{self.name}.")

    @torch.no_grad()
    def reduce(self) -> None:
        """Add this pass's gradient, if there is one, to that of the step, summed over the workers."""
        if self._ready and self.exchange is not None:
            flat = self.empty()
            for place, (parameter, part) in enumerate(zip(self.parameters, self.split(flat), strict=True)):
                is_summed = place in self._taken  # in a part of this backward pass before
                if parameter.grad is None or is_summed or not self.factor:
                    part.zero_()  # not `* 0`: a borrowed sample's inf would become nan
                else:
                    torch.mul(parameter.grad.reshape(-1), self.factor, out=part)
                    self.has_gradient[place] = True
                if not is_summed:
                    parameter.grad = None
            self._ready.clear()
            summed = self.exchange.reduce(self, flat)
            self.gradient = summed if self.gradient is None else self.gradient.add_(summed)
            self.is_reduced = True

    @property
    def is_done(self) -> bool:
        """Whether no gradient is to come in this backward pass, as far as one can see."""
        return not self._ready and (self.is_reduced or not any(p.requires_grad for p in self.parameters))

    def end_backward(self) -> None:
        self.reduce()
        self.is_reduced = False
        self.release()
        self.stand_in()

    def stand_in(self) -> None:
        """Where the gradients were, the script meets what tells it that they are parts on all workers."""
        if self.exchange is not None:
            for place, has in enumerate(self.has_gradient):
                if has and place not in self._taken:
                    self.parameters[place].grad = self._no_gradients[place]
                    self._taken.add(place)


def _nodes_of(output: Any) -> Iterator[torch.autograd.graph.Node]:
    """The last nodes of the graphs of tensors in what a module returns."""
    if isinstance(output, torch.Tensor):
        if output.grad_fn is not None:
            yield output.grad_fn
    elif isinstance(output, Mapping):
        yield from _nodes_of(list(output.values()))
    elif isinstance(output, list | tuple):
        for part in output:
            yield from _nodes_of(part)


def find_blocks(
    model: nn.Module, chosen: Sequence[type[nn.Module] | nn.Module]
) -> list[tuple[str, nn.Module, list[nn.Parameter]]]:
    """The chosen modules, with those of their parameters that are no number of a block within.

    Args:
        chosen: classes of modules, and modules.

    Raises:
        LoopError: there is none, or its parameters cannot be divided.
    """
    names: dict[nn.Module, str] = {}
    holders: dict[nn.Parameter, nn.Module | None] = {}  # the innermost block of each; None: it is in none
    kinds, ids = tuple(each for each in chosen if isinstance(each, type)), set(map(id, chosen))

    def visit(module: nn.Module, path: str, holder: nn.Module | None) -> None:
        if isinstance(module, kinds) or id(module) in ids:
            holder, _ = module, names.setdefault(module, path)
        for name, parameter in module.named_parameters(path, recurse=False):
            if (other := holders.setdefault(parameter, holder)) is not holder:
                here, there = (None if each is None else names[each] for each in (holder, other))
                raise LoopError(_in_two_places(name, here, there))
        for name, child in module.named_children():
            visit(child, f"{path}.{name}".lstrip("."), holder)

    visit(model, "", None)
    if not names:
        named = ", ".join(getattr(each, "__name__", type(each).__name__) for each in chosen)
        raise LoopError(
            f"elastic() got shard=[{named}], and the model has no such module; name the classes of its "
            "blocks, such as the layers of a transformer"
        )
    blocks = []
    for module, name in names.items():
        own = (parameter for parameter, holder in holders.items() if holder is module)
        if parameters := [each for each in own if each.dim() and each.numel()]:
            _check_alike(name, parameters)
            blocks.append((name, module, parameters))
    return blocks


def _in_two_places(parameter: str, *blocks: str | None) -> str:
    here, there = ("the rest of the model" if name is None else f"the block {name!r}" for name in blocks)
    return (
        f"elastic() got shard=[...] and the parameter {parameter!r}, which is in {here} and in {there} as "
        "well; a block has its parameters for itself: name an outer module that has both, or untie them"
    )


def _check_alike(name: str, parameters: Sequence[nn.Parameter]) -> None:
    kinds = {(parameter.dtype, parameter.device) for parameter in parameters}
    for dtype in {dtype for dtype, _ in kinds if not (dtype.is_floating_point or dtype.is_complex)}:
        raise LoopError(
            f"elastic() got shard=[...] and the block {name!r} with parameters of {dtype}; register what is "
            "no floating point number as a buffer"
        )
    if len(kinds) > 1:
        found = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
        raise LoopError(
            f"elastic() got shard=[...] and the block {name!r} with parameters of {found}; a block travels "
            "in one piece: give its parameters one dtype and one device"
        )
