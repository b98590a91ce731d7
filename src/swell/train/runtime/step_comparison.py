"""Steps of a trial run that are made again, each from the same state, and compared.

Everything that lasts is put back: the training state, and what the script keeps in variables. So whatever
differs afterwards comes of what was changed between the two on purpose, or of what is no part of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from swell.script_facts import ScriptFinding
from swell.train.collective.norms import other_buffers
from swell.train.collective.real_numbers import as_real
from swell.train.data.sample_schedule import Share
from swell.train.runtime.host import Task
from swell.train.state import codec
from swell.train.state.script_values import copied

#: Part of the training state, and name in it.
Key = tuple[str, str]
#: What a worker computes in the step of this number.
ShareOf = Callable[[int], Share]
#: Yields the share of each coming step, and None to go on when the script asks for the next batch.
Steps = Generator[ShareOf | None, None, list[ScriptFinding]]

#: Numbers of each parameter's gradient that are compared, evenly spread over it.
MOST_COMPARED = 1 << 18
#: What rounding may come to, as a share of the gradients' norm; more is a difference.
_DOUBLE, _SINGLE, _HALF = 1e-8, 5e-4, 1e-1
_SHORT_PRODUCTS = 2e-2  # of a GPU with TF32, whose products have 11 bits


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step has come to."""

    loss: float
    gradient: torch.Tensor  #: `sampled`, as `run.step` got it; of several passes their sum
    settings: str = ""  #: hyperparameters, such as learning rates
    left: codec.Tree = field(default_factory=dict)  #: what the script kept when it asked for the next batch

    def difference(self, other: StepResult, tolerance: float, parts: Sequence[StepResult] = ()) -> str:
        """Name what differs by more than rounding; empty: nothing does.

        Args:
            parts: steps of parts of the batch; their losses and gradients widen the tolerance, too.
        """
        results = (self, other, *parts)
        if self.settings != other.settings:
            return "a learning rate or the like"
        if abs(self.loss - other.loss) > tolerance * max(abs(result.loss) for result in results):
            return "the loss"
        bound = tolerance * max(float(result.gradient.norm()) for result in results)
        return "the gradient" if float((self.gradient - other.gradient).norm()) > bound else ""


class StepComparison:
    """Steps of one trial run that are made again. Its subclasses have `steps`, which leads them."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._parameters = [p for p in task.state.model.parameters() if p.requires_grad]
        self._originals: dict[str, Any] = {}  # variables that the script begins its first batch with

    def _keep(self) -> None:
        self._kept = self._task.state.copy()

    def _put_back(self, carried: Mapping[Key, Any] | None = None) -> None:
        """Put back the kept state; variables that a new process would make itself are as at the beginning.

        Args:
            carried: values of the script to begin with instead of the kept ones.
        """
        state, (skeleton, tensors) = self._task.state, self._kept
        tree = codec.decode(skeleton, [tensor.clone() for tensor in tensors])
        for name in {*state.objects} - {*tree["objects"], *tree["values"]}:
            del state.objects[name]
        tree["variables"] = {**copied(self._originals), **tree["variables"]}
        for (part, name), value in (carried or {}).items():
            tree[part] = {**tree[part], name: copied(value)}
        state.restore(tree)
        for parameter in self._parameters:
            parameter.grad = None


def buffers_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of a model's buffers, those of batch norms apart."""
    return {name: tensor.clone() for name, tensor in other_buffers(model).items()}


def tolerance_of(parameters: Sequence[torch.Tensor], is_lower: bool) -> float:
    """What rounding may come to with these parameters, as a share of the gradients' norm.

    Args:
        is_lower: the model computes in half precision, under autocast.
    """
    dtypes = {parameter.dtype for parameter in parameters}
    if is_lower or dtypes & {torch.float16, torch.bfloat16}:
        return _HALF
    if dtypes <= {torch.float64, torch.complex128}:
        return _DOUBLE
    return _SHORT_PRODUCTS if any(parameter.is_cuda for parameter in parameters) else _SINGLE


def sampled(parameters: Sequence[nn.Parameter]) -> torch.Tensor:
    """Gradients in one vector on the CPU, in double precision; of large ones a part. Zeros where none is."""
    parts = []
    for parameter in parameters:
        step = max(1, parameter.numel() // MOST_COMPARED)
        gradient = parameter.grad
        if gradient is None:
            gradient = torch.zeros_like(parameter)
        elif gradient.layout != torch.strided:
            gradient = gradient.to_dense()
        parts.append(as_real(gradient.detach().reshape(-1)[::step]).reshape(-1).to("cpu", torch.float64))
    return torch.cat(parts)
