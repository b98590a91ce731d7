"""Stand-ins for what other workers keep of a divided state: they refuse a script that would use it.

A script can see a parameter of a divided block, its gradient, and the optimizer's state where their numbers
are not. It may ask for a shape, and is told by an error what it cannot have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import nn

from swell.train.collective.gradients import LoopError

AWAY = (
    "the script uses optimizer.state between steps, or state_dict() or load_state_dict() of the optimizer, "
    "of whose state each worker has a part (shard=...); load it before elastic(), read the whole one from a "
    "checkpoint with swell.train.load_checkpoint(folder), or take shard out"
)
AWAY_PARAMETER = (
    "the script uses the parameter {name!r} ({use}) while its block does not compute; with several workers "
    "it is not there then, for elastic() got shard=[...]: load or initialise weights before elastic(), take "
    "out what reads them, such as an average of weights or a norm for a log, read the whole model from a "
    "checkpoint with swell.train.load_checkpoint(folder) or on the leader after the last step, call the "
    "block as a module, or use shard='optimizer'"
)
AWAY_GRADIENT = (
    "the script uses the gradient of {name!r} ({use}) between run.backward and run.step; with several "
    "workers each has a part of it, for elastic() got shard=[...]: call run.clip_grad_norm_(max_norm) in "
    "place of torch.nn.utils.clip_grad_norm_, and use the norm that it returns, set requires_grad before "
    "`for batch in run.batches():`, or use shard='optimizer'"
)
#: Within, away tensors are asked as any others, at no cost: for what Swell does in each step.
unasked = torch._C.DisableTorchFunctionSubclass
#: Methods of a state by which a script could read or change it.
METHODS = (
    *("__contains__", "__delitem__", "__getitem__", "__iter__", "__setitem__", "clear", "get", "items"),
    *("keys", "pop", "popitem", "setdefault", "update", "values"),
)
#: Attributes that are views of a tensor's elements; no other attribute reads them.
VIEWS = {"data", "T", "mT", "H", "mH", "real", "imag"}
#: What can be asked of a tensor without its elements.
QUESTIONS = {
    *("numel", "nelement", "size", "dim", "ndimension", "stride", "storage_offset", "element_size"),
    *("is_contiguous", "is_floating_point", "is_complex", "is_signed", "is_inference", "get_device"),
    *("__len__", "data_ptr", "untyped_storage", "requires_grad_", "register_hook"),
    *("register_post_accumulate_grad_hook", "ones_like", "zeros_like", "empty_like", "full_like"),
    *("rand_like", "randn_like", "randint_like", "new_zeros", "new_ones", "new_empty", "new_full"),
}


class AwayTensor(torch.Tensor):
    """A tensor of a divided block whose elements are not here."""

    refusal: ClassVar[str]
    of: ClassVar[str]  #: the parameter's name in the model
    is_open: ClassVar[bool] = False  #: Swell asks, which knows that they are not here

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Raises LoopError where the script asks for elements, or writes to them."""
        use, is_refused = _use_of(function)
        if is_refused and not AwayTensor.is_open:
            raise LoopError(cls.refusal.format(name=cls.of, use=use))
        with unasked():
            return function(*args, **(kwargs or {}))


class AwayParameter(AwayTensor, nn.Parameter):
    """A parameter: each of the script's own gets a class of its own as long as its elements are not here."""

    refusal = AWAY_PARAMETER


class AwayGradient(AwayTensor):
    """A gradient that was summed already."""

    refusal = AWAY_GRADIENT


def _use_of(function: Callable[..., Any]) -> tuple[str, bool]:
    """The name of what one of torch's functions does, and whether it takes the elements of a tensor."""
    name = getattr(function, "__name__", "")
    if name in ("__get__", "__set__", "__delete__"):
        attribute = getattr(getattr(function, "__self__", None), "__name__", "")
        return attribute, attribute in VIEWS
    return name, name not in QUESTIONS


def away_classes(name: str) -> tuple[type[AwayParameter], type[AwayGradient]]:
    """The classes of one parameter and its gradient."""
    parameter = type(AwayParameter.__name__, (AwayParameter,), {"of": name})
    return parameter, type(AwayGradient.__name__, (AwayGradient,), {"of": name})


@contextmanager
def opened() -> Iterator[None]:
    """Within, nothing is refused."""
    AwayTensor.is_open = True
    try:
        yield
    finally:
        AwayTensor.is_open = False


class AwayState(defaultdict[Any, Any]):
    """The optimizer's state: empty, as long as it lies in pieces."""


def _refused(name: str) -> Callable[..., Any]:
    method = getattr(defaultdict, name)

    def refuse(self: AwayState, *args: Any, **options: Any) -> Any:
        if not AwayTensor.is_open:
            raise RuntimeError(AWAY)
        return method(self, *args, **options)

    return refuse


for _name in METHODS:
    setattr(AwayState, _name, _refused(_name))
