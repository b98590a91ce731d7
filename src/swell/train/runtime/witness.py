"""What one step of a gang has come to, noted so that another process can compute it once more.

A gang that has saved its state notes its next step, which is no other than it would have been. The notes lie
beside the checkpoint. Whoever computes the same passes from that checkpoint must get the same samples, losses
and gradients: `Proof` does that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from swell.script_facts import ScriptFinding
from swell.train.collective.pieces import as_real, local
from swell.train.data.sample_schedule import SampleSchedule, Share
from swell.train.state.script_values import mark, size_of
from swell.train.state.train_state import TrainState
from swell.wire.checkpoint_files import witness_path

#: Passes of one worker that are noted at most.
MOST_NOTED = 4
#: Sums of a gradient with random signs: two gradients that differ have other sums.
NUM_SUMS, WIDTH = 4, 4096


class PassNote(msgspec.Struct, frozen=True, array_like=True):
    """What one pass of a worker has come to."""

    samples: int  #: digest of the batch that the script got
    loss: float
    norm: float  #: of the gradient of this pass alone
    sums: tuple[float, ...]  #: of the gradient with random signs
    rates: tuple[float, ...]  #: learning rates and what else optimizers are set to

    def difference(self, other: PassNote, tolerance: float) -> str:
        """Name what differs by more than rounding; empty: nothing does.

        Args:
            tolerance: as a share of the loss, and of the gradient's norm.
        """
        if len(self.rates) != len(other.rates) or _differ(self.rates, other.rates, tolerance):
            return "with another learning rate or the like"
        if _differ([self.loss], [other.loss], tolerance):
            return "another loss" if self.samples == other.samples else "the loss of other samples"
        bound = tolerance * max(self.norm, other.norm)
        pairs = zip((self.norm, *self.sums), (other.norm, *other.sums), strict=True)
        if any(not _is_near(one, two, 2.0 * bound) for one, two in pairs):
            return "another gradient" if self.samples == other.samples else "the gradient of other samples"
        return ""


def _differ(some: Sequence[float], others: Sequence[float], tolerance: float) -> bool:
    pairs = zip(some, others, strict=True)
    return any(not _is_near(one, two, tolerance * max(abs(one), abs(two))) for one, two in pairs)


def _is_near(one: float, two: float, bound: float) -> bool:
    """Also where both are infinite, or no numbers."""
    is_close = math.isfinite(bound) and abs(one - two) <= bound
    return one == two or is_close or (math.isnan(one) and math.isnan(two))


class WorkerNotes(msgspec.Struct, frozen=True, array_like=True):
    """The passes of one worker in the step."""

    max_local_batch: int | None  #: as its host had it
    passes: list[PassNote]
    #: Numbers of `run.state`, and values that the script has reported last without a reduction: by name, the
    #: step, value and line.
    reports: dict[str, tuple[int, float, str]] = {}


def different_reports(
    workers: Sequence[WorkerNotes], tolerance: float
) -> Iterator[tuple[str, ScriptFinding]]:
    """Find the names for which another worker has reported another value of the same step than rank 0.

    Args:
        tolerance: what rounding may come to, as a share of a value.
    """
    for name, (step, value, place) in workers[0].reports.items():
        told = [other.reports[name] for other in workers if name in other.reports]
        others = [each for at, each, _ in told if at == step and _differ([value], [each], tolerance)]
        if others:
            text = (
                f"`{name}` of step {step} is {value:.6g} in one worker and {others[0]:.6g} in another, and "
                "the first counts: it is of a worker's own part of the data. Report it with "
                'reduce="sum" or reduce="mean", as fits, or count it over all of the data'
            )
            yield name, ScriptFinding(name="own-share", text=text, place=place, holds=False)


class WitnessedStep(msgspec.Struct, frozen=True):
    """One step of a gang."""

    steps: int  #: of the own batch, done before it
    batch: int  #: its samples
    loss: float  #: their mean, as `run.backward` has returned it
    workers: list[WorkerNotes]  #: by rank
    shares: tuple[int, ...] = ()  #: see `SampleSchedule.shares`

    def share(self, course: SampleSchedule, rank: int, number: int) -> Share:
        """One pass of a worker, as it had it. The course stands before the step."""
        most, step = self.workers[rank].max_local_batch, course.place.step
        share = course.share(step, rank, len(self.workers), most)
        return replace(share, passes=(share.passes[number],), shards=range(0), num_shards=0)


def read_witness(checkpoint: Path, position: int = 0) -> WitnessedStep | None:
    """Return the step after a checkpoint; None: it was not noted.

    Args:
        position: of the process of each worker that noted it.
    """
    try:
        return msgspec.msgpack.decode(witness_path(checkpoint, position).read_bytes(), type=WitnessedStep)
    except (OSError, msgspec.DecodeError):
        return None


class StepNotes:
    """Notes the passes of a step of this worker while they are made."""

    def __init__(self, state: TrainState) -> None:
        self._state = state
        self._parameters = [each for each in state.model.parameters() if each.requires_grad]
        self._samples: int | None = None  # digest of the batch that is out
        self._before: dict[nn.Parameter, torch.Tensor | None] = {}  # gradients when the batch came
        self._changed: set[nn.Parameter] = set()  # whose gradient the pass has made or added to
        self._hooks: list[RemovableHandle] = []
        self.passes: list[PassNote] = []

    def see_batch(self, batch: Any) -> None:
        """The script gets this batch."""
        self._remove_hooks()
        if len(self.passes) < MOST_NOTED:
            self._samples = digest_of(batch)
            self._before = {each: each.grad for each in self._parameters}
            self._changed.clear()
            self._hooks = [
                each.register_post_accumulate_grad_hook(self._changed.add) for each in self._parameters
            ]

    def see_pass(self, loss: torch.Tensor) -> None:
        """The first backward pass of the batch is made, and its gradients are not summed yet.

        Those that the pass has left as they were, as of another optimizer's parameters, are none of it.
        """
        self._remove_hooks()
        samples, self._samples = self._samples, None
        if samples is not None:
            own = [each.grad for each in self._parameters if self._has_own_gradient(each)]
            norm, *sums = signed_sums([gradient for gradient in own if gradient is not None])
            rates = tuple(rates_of(self._state.hyperparameters()))
            self.passes.append(PassNote(samples, float(loss), norm, tuple(sums), rates))

    def _has_own_gradient(self, parameter: nn.Parameter) -> bool:
        """Whether the pass has made or changed it, or the script has put another one there."""
        return parameter in self._changed or parameter.grad is not self._before.get(parameter)

    def _remove_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []


@torch.no_grad()
def signed_sums(gradients: list[torch.Tensor]) -> list[float]:
    """Return the norm of some gradients together, and `NUM_SUMS` sums of them with fixed random signs.

    Each row of `WIDTH` numbers has the same signs and a factor of its own, so gradients are read once.
    """
    total = torch.zeros(1 + NUM_SUMS, dtype=torch.float64)
    signs = torch.randint(2, (WIDTH, NUM_SUMS), generator=torch.Generator().manual_seed(0)) * 2.0 - 1.0
    rates = torch.arange(1, NUM_SUMS + 1, dtype=torch.float64).sqrt()
    first = 0
    for gradient in gradients:
        gradient = local(gradient)
        dense = gradient.to_dense() if gradient.layout != torch.strided else gradient
        flat = as_real(dense.detach()).reshape(-1)
        flat = flat if flat.dtype == torch.float64 else flat.float()
        num_rows = -(-flat.numel() // WIDTH)
        factors = torch.cos(torch.arange(first, first + num_rows, dtype=torch.float64)[:, None] * rates)
        first += num_rows
        own = signs.to(flat)
        whole = flat[: flat.numel() // WIDTH * WIDTH].view(-1, WIDTH) @ own
        rest = flat[len(whole) * WIDTH :]
        rows = torch.cat([whole, (rest @ own[: len(rest)])[None]])
        total[1:] += (rows[:num_rows].to("cpu", torch.float64) * factors).sum(0)
        total[0] += flat.square().sum(dtype=torch.float64).cpu()
    return [float(total[0].sqrt()), *total[1:].tolist()]


def rates_of(groups: Iterable[Mapping[str, Any]]) -> Iterator[float]:
    """Yield the numbers among the hyperparameters of an optimizer."""
    for group in groups:
        for name in sorted(group.keys() - {"params"}):
            value = group[name]
            for each in value if isinstance(value, tuple | list) else (value,):
                if isinstance(each, int | float) or (isinstance(each, torch.Tensor) and each.numel() == 1):
                    yield float(each)


def digest_of(value: Any) -> int:
    """Return a checksum of what a batch holds: of its tensors, arrays, numbers and texts, at any depth."""
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        return mark([digest_of(each) for each in value]) or 0
    return (mark(value) or 0) if size_of(value) < math.inf else 0
