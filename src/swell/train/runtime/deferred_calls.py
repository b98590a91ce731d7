"""Calls by which a script changes the gradients of its own pass, done on the sum over workers instead.

Between a batch and its `run.step` torch's functions that clip are written down, and `run.step` carries them
out on the summed gradient. A GradScaler's factor stays on the gradients until then, too: `unscale_` and
`update` do nothing, for `run.step` does both. Everywhere else all of them are torch's own.

A script may have imported the functions under any name before it calls `elastic`. So it is not the names that
are given another function: torch's functions are wrappers, and what they wrap is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial, wraps
from typing import Any

import torch

from swell.train.collective.gradients import LoopError
from swell.train.state.train_state import TrainState

Call = Callable[..., Any]
Tensors = torch.Tensor | Iterable[torch.Tensor]

_loops: list[DeferredCalls] = []  # in which a script is, the innermost last


class DeferredCalls:
    """What the body of one loop has asked for since it got its batch."""

    def __init__(self, state: TrainState) -> None:
        self.is_out = False  #: a batch is, and its `run.step` is to come
        self.is_applying = False  #: what was deferred is done, or undone: a scaler's own calls are meant
        self.clips: list[Callable[[], object]] = []  #: of the pass, in order
        self._state = state
        self._norms: list[torch.Tensor] = []  # that the script was given, and that `run.step` will correct
        _take_over()

    def open(self) -> None:
        """The script is in its loop."""
        _loops.append(self)

    def close(self) -> None:
        """It has left the loop."""
        self.is_out = False
        if self in _loops:
            _loops.remove(self)

    def begin_pass(self) -> None:
        self.is_out = True
        if self.clips:
            self.clips, self._norms = [], []

    def owns(self, parameters: Iterable[torch.Tensor]) -> bool:
        own = {id(parameter) for parameter in self._state.model.parameters()}
        return any(id(parameter) in own for parameter in parameters)

    def holders(self, gradients: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """The model's parameters whose gradients these are; none if they are something else."""
        wanted = set(map(id, gradients))
        return [p for p in self._state.model.parameters() if p.grad is not None and id(p.grad) in wanted]

    def has_gradients(self, gradients: Iterable[torch.Tensor]) -> bool:
        """Whether these are the model's, or may be meant to be: gradients of divided blocks are not here."""
        return self._state.shard_of_blocks is not None or len(self.holders(gradients)) > 0

    # ------------------------------------------------------------------ clipping
    def clip_norm(
        self, clip: Call, parameters: list[torch.Tensor], *args: Any, **options: Any
    ) -> torch.Tensor:
        """Later clip by the norm of the sum; returns this pass's own, which becomes that of the sum then."""
        norm = self._own_norm(parameters, *args[1:2], **_only(options, "norm_type"))
        clip = self._state.clipping(clip)
        self.clips.append(lambda: norm.copy_(clip(parameters, *args, **options)))
        return norm

    def clip_later(self, clip: Call, parameters: list[torch.Tensor], *args: Any, **options: Any) -> None:
        self.clips.append(partial(self._state.clipping(clip), parameters, *args, **options))

    def total_norm(
        self, total: Call, gradients: list[torch.Tensor], *args: Any, **options: Any
    ) -> torch.Tensor:
        """The norm of this pass's own gradients, which becomes that of the sum in `run.step`."""
        total = self._state.clipping(total)
        holders, parameters = self.holders(gradients), list(self._state.model.parameters())
        norm = self._own_norm(holders, *args[:1], **_only(options, "norm_type"))
        if len(holders) == len(_gradients_of(parameters)):
            holders = [*parameters]  # another worker may have gradients of more of them
        self.clips.append(lambda: norm.copy_(total(_gradients_of(holders), *args, **options)))
        return norm

    def clip_with_norm(
        self,
        clip: Call,
        parameters: list[torch.Tensor],
        max_norm: float,
        total_norm: torch.Tensor,
        *args: Any,
        **options: Any,
    ) -> None:
        """Later clip by a norm that becomes that of the sum. Raises LoopError if it is the script's own."""
        if isinstance(total_norm, torch.Tensor) and not any(total_norm is norm for norm in self._norms):
            raise LoopError(
                "clip_grads_with_norm_ was given a norm of this worker's own gradients; give it what "
                "get_total_norm returned, unchanged, or call clip_grad_norm_: run.step(loss) then clips the "
                "average of all workers"
            )
        self.clip_later(clip, parameters, max_norm, total_norm, *args, **options)

    @torch.no_grad()
    def _own_norm(self, parameters: list[torch.Tensor], norm_type: float = 2.0) -> torch.Tensor:
        if (shard := self._state.shard_of_blocks) is not None:  # theirs are not here
            parameters = [parameter for parameter in parameters if not shard.takes_gradient(parameter)]
        norms = torch._foreach_norm(_gradients_of(parameters) or [torch.zeros(())], float(norm_type))
        norm: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms), float(norm_type))
        scaler = self._state.scaler
        if scaler is not None and scaler.is_enabled():
            norm = norm / scaler.get_scale()
        self._norms.append(norm)
        return norm

    # ------------------------------------------------------------------ scalers
    def note_scaler(self, scaler: torch.amp.GradScaler) -> None:
        """The script puts the scaler's factor on the loss of its pass."""
        if self._state.shard_of_blocks is not None:
            raise LoopError(
                "the loop uses a GradScaler, and elastic() got shard=[...], whose blocks sum their gradients "
                "before the scaler's factor can be taken off; train in bfloat16, or use shard='optimizer'"
            )
        if self._state.scaler is None:
            self._state.find_scaler(scaler)
        elif self._state.scaler is not scaler:
            raise LoopError("the loop scales by a second GradScaler; use one for all losses")

    def is_scaled_by(self, scaler: torch.amp.GradScaler) -> bool:
        return self._state.scaler is scaler and not self.is_applying


def _only(options: dict[str, Any], name: str) -> dict[str, Any]:
    return {name: options[name]} if name in options else {}


def _gradients_of(parameters: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def _owner(
    tensors: Iterable[torch.Tensor], owns: Callable[[DeferredCalls, Any], bool] = DeferredCalls.owns
) -> DeferredCalls | None:
    """The loop with a batch out to whose model one of these belongs."""
    return next((loop for loop in _loops if loop.is_out and owns(loop, tensors)), None)


# ------------------------------------------------------------------ in the place of torch's
def _deferred(defer: Call, owns: Callable[[DeferredCalls, Any], bool] = DeferredCalls.owns) -> Call:
    """Make what is called instead of a function: `defer` where a loop with a batch out owns the tensors."""

    def call(function: Call, tensors: Tensors, *args: Any, **options: Any) -> Any:
        if not _loops:
            return function(tensors, *args, **options)
        held = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        loop = _owner(held, owns)
        return (
            function(held, *args, **options)
            if loop is None
            else defer(loop, function, held, *args, **options)
        )

    return call


def _scale(scale: Call, scaler: torch.amp.GradScaler, *args: Any, **options: Any) -> Any:
    loop = next((loop for loop in reversed(_loops) if loop.is_out), None)
    if loop is not None and scaler.is_enabled():
        loop.note_scaler(scaler)
    return scale(scaler, *args, **options)


def _unscale(
    unscale: Call, scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, *args: Any, **options: Any
) -> Any:
    if _owner(_parameters_of(optimizer)) is None:
        unscale(scaler, optimizer, *args, **options)


def _step(
    step: Call, scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, *args: Any, **options: Any
) -> Any:
    if _owner(_parameters_of(optimizer)) is not None:
        raise LoopError(
            "the script calls scaler.step(optimizer) in its loop over run.batches(); run.step(loss) does "
            "that, with the average of all workers: put run.step(loss) in its place"
        )
    return step(scaler, optimizer, *args, **options)


def _update(update: Call, scaler: torch.amp.GradScaler, *args: Any, **options: Any) -> Any:
    if not any(loop.is_scaled_by(scaler) for loop in _loops):
        update(scaler, *args, **options)


def _parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


# ------------------------------------------------------------------ how it gets there
@cache
def _take_over() -> None:
    """Put this module's functions in the place of torch's; once a process."""
    functions: dict[str, Call] = {
        "clip_grad_norm_": _deferred(DeferredCalls.clip_norm),
        "clip_grad_value_": _deferred(DeferredCalls.clip_later),
        "get_total_norm": _deferred(DeferredCalls.total_norm, DeferredCalls.has_gradients),
        "clip_grads_with_norm_": _deferred(DeferredCalls.clip_with_norm),
    }
    for name, instead in functions.items():
        _replace(name, instead)
    methods: dict[str, Call] = {"scale": _scale, "unscale_": _unscale, "step": _step, "update": _update}
    for name, instead in methods.items():
        setattr(torch.amp.GradScaler, name, _method(getattr(torch.amp.GradScaler, name), instead))


def _method(method: Call, instead: Call) -> Call:
    @wraps(method)
    def call(scaler: torch.amp.GradScaler, *args: Any, **options: Any) -> Any:
        return instead(method, scaler, *args, **options)

    return call


def _replace(name: str, instead: Call) -> None:
    """Torch's function holds what it calls in `no_grad` in a cell; if it does not, its name is replaced."""
    function = getattr(torch.nn.utils, name)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    if "func" in cells:
        cells["func"].cell_contents = partial(instead, cells["func"].cell_contents)
    else:
        setattr(torch.nn.utils, name, wraps(function)(partial(instead, function)))
