"""What is told of a batch's gradient that differs between one worker and two.

Few causes are named: those that the numbers of the compared steps show. Of others it is said what differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from swell.train.runtime.gradient_differences import Mixture, differ, mixture
from swell.train.runtime.loop_exits import LoopExit
from swell.train.state import codec
from swell.wire.findings import ScriptFinding

PAGE = (
    "causes and changes stand in docs/how-to/make-a-script-elastic.md, `When the result depends on the size`"
)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe has shown. Gradients are `sampled`."""

    loss: float  #: of the script
    gradient: torch.Tensor  #: as the script left it
    backward: torch.Tensor  #: as the backward pass left it
    weight: float  #: of its gradient in the sum over the workers
    total_loss: float  #: over the workers so far
    total_gradient: torch.Tensor  #: that would go into the update, over the workers so far
    buffers: dict[str, torch.Tensor]  #: of the model, batch norms' apart
    has_drawn: bool  #: random numbers, in the loop's body
    has_norm: bool  #: over the samples of a batch
    place: str  #: of `run.step`
    left: codec.Tree = field(default_factory=dict)  #: what the script kept when it asked for the next batch


@dataclass(frozen=True, slots=True)
class ComparedSizes:
    """One batch as a whole, in two shards, and as a whole once more."""

    whole: ProbeResult
    shards: tuple[ProbeResult, ProbeResult] | None  #: None: any number of workers has the same
    again: ProbeResult
    tolerance: float
    #: Variables of the script that its worker's part of the batch sets, and that `again` began with.
    carried: tuple[str, ...] = ()
    each_pass: tuple[str, ...] = ()  #: variables that change with each pass of a step
    depends_on_passes: bool = False  #: by one of these

    @property
    def is_unsteady(self) -> bool:
        """The same batch gives another gradient the second time."""
        return self._is_other(self.again, [])

    @property
    def differs(self) -> bool:
        """The update of two workers, or the loss that they report, is another one than of one worker."""
        if self.shards is None:
            return False
        return self._is_other(self.shards[1], [shard.gradient for shard in self.shards])

    def _is_other(self, result: ProbeResult, parts: list[torch.Tensor]) -> bool:
        is_other = differ(self.whole.total_gradient, result.total_gradient, parts, self.tolerance)
        return is_other or not self._is_near(self.whole.total_loss, result.total_loss)

    def _is_near(self, one: float, other: float) -> bool:
        losses = [abs(result.loss) for result in self.results]
        return abs(one - other) <= self.tolerance * max(*losses, 1e-300)

    @property
    def results(self) -> list[ProbeResult]:
        return [self.whole, *(self.shards or ()), self.again]

    @property
    def has_drawn(self) -> bool:
        return any(result.has_drawn for result in self.results)

    @property
    def has_norm(self) -> bool:
        return any(result.has_norm for result in self.results)

    @property
    def is_sum_of_losses(self) -> bool:
        assert self.shards is not None  # noqa: S101 - they differ
        losses = [shard.loss for shard in self.shards]
        return min(map(abs, losses)) > 0.0 and self._is_near(self.whole.loss, sum(losses))

    def mixture(self) -> Mixture:
        assert self.shards is not None  # noqa: S101 - they differ
        first, second = (shard.backward for shard in self.shards)
        return mixture(self.whole.backward, first, second, self.tolerance)

    @property
    def is_changed_by_hand(self) -> bool:
        """The backward pass is right at any size: what the script then does to the gradient is not."""
        assert self.shards is not None  # noqa: S101 - they differ
        if all(torch.equal(result.gradient, result.backward) for result in self.results):
            return False
        parts = [shard.backward for shard in self.shards]
        summed = sum((shard.weight * shard.backward for shard in self.shards), torch.zeros(()))
        return not differ(self.whole.weight * self.whole.backward, summed, parts, self.tolerance)


def causes_of(plain: ComparedSizes, fixed: ComparedSizes | None) -> list[ScriptFinding]:
    """What the job's owner is told.

    Args:
        fixed: the same with random numbers and batch statistics that do not depend on the shard; None: the
            script has neither, or nothing differs.
    """
    if plain.is_unsteady:
        return [_unsteady(plain)]
    found = [*_buffers(plain), *_of_each_pass(plain)]
    if not plain.differs:
        return found
    if fixed is None:
        return [*found, *_cause(plain, is_certain=not [*_buffers(plain)])]
    found += _known(plain)
    return [*found, *_cause(fixed, is_certain=False)] if fixed.differs else found


def fails_with_part(error: str, place: str) -> ScriptFinding:
    """Return the finding that the script went well with a whole batch, and not with a part of it."""
    text = (
        f"the script fails with a part of a batch, and not with all of it ({error.strip()}): each of several "
        "workers gets a part, and parts differ in size. Take sizes from the batch, as `len(x)`, and keep "
        "nothing from one batch to the next whose size is that of a batch"
    )
    return ScriptFinding(name="part-of-batch", text=text, place=place)


def ends_by_part(found: LoopExit) -> ScriptFinding:
    """Return the finding that workers would leave their loop at different steps."""
    text = (
        f"{listed(found.names)} in {found.function}() changes with the samples of each worker's own part of "
        "the batch, and decides when the loop ends: workers would leave it at different steps. Decide by "
        "what is the same on all workers, as what `run.step` returns is"
    )
    return ScriptFinding(name="hidden-state", text=text, place=found.place)


def listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cause(compared: ComparedSizes, is_certain: bool) -> Iterator[ScriptFinding]:
    """The finding that the numbers show, if they show one.

    Args:
        is_certain: nothing else explains the difference.
    """
    mixed, tolerance = compared.mixture(), compared.tolerance
    if compared.is_changed_by_hand:
        name = "changed-gradient"
    elif (mixed.is_exact and mixed.is_near(1.0, 1.0, tolerance)) or compared.is_sum_of_losses:
        name = "sum-loss"
    elif mixed.is_exact and mixed.is_near(mixed.first, 1.0 - mixed.first, tolerance):
        name = "weighted-mean"
    elif is_certain or (mixed.is_exact and mixed.is_near(mixed.second, mixed.second, tolerance)):
        name = "batch-dependent"
    else:
        return
    yield ScriptFinding(name=name, text=_TEXTS[name], place=compared.whole.place)


_TEXTS = {
    "changed-gradient": "the script changes the gradient by hand between the backward pass and `run.step`, "
    "where each worker has that of its own part of the batch; clip with torch's `clip_grad_norm_` or "
    "`clip_grad_value_`, which `run.step` carries out on the average of all workers, or put the change into "
    "the loss",
    "sum-loss": "the loss is a sum over the batch's samples, maybe divided by a constant, so two workers' "
    'average is half of it; divide by `len(batch)`, or declare it: `elastic(..., loss_reduction="sum")`',
    "weighted-mean": "the loss is a mean over more than samples (tokens, masks or weights), and workers are "
    "weighted by their samples; tell what it is a mean over: `run.step(loss, weight=N)`, N the sum of the "
    "weights, or the number of tokens that count",
    "batch-dependent": "a batch's gradient is not the mean of its samples' gradients, so it depends on how "
    "many samples a worker has: make the loss a mean over samples that does not compare them with each "
    f"other, or keep to one worker ({PAGE})",
}


def _unsteady(compared: ComparedSizes) -> ScriptFinding:
    of_parts = (
        f"; {listed(compared.carried)} had what another worker sets from its part of the batch"
        if compared.carried
        else ""
    )
    text = (
        "the same batch gives another gradient the second time: the step depends on what the script keeps "
        f"and changes by itself, which each worker has for itself{of_parts}; take it from `run.steps` or "
        f"from what `run.step` returns, or keep it out of the loss ({PAGE})"
    )
    return ScriptFinding(name="hidden-state", text=text, place=compared.whole.place)


def _of_each_pass(compared: ComparedSizes) -> Iterator[ScriptFinding]:
    if compared.each_pass:
        text = (
            f"{listed(compared.each_pass)} changes with each pass of a step, and a worker that has more of "
            "its samples makes more passes; put what belongs to a step after `run.step`, under "
            "`if run.has_stepped:`"
        )
        place, holds = compared.whole.place, compared.depends_on_passes
        yield ScriptFinding(name="each-pass", text=text, place=place, holds=holds)


def _buffers(compared: ComparedSizes) -> Iterator[ScriptFinding]:
    if compared.shards is None:
        return
    first, second = (shard.buffers for shard in compared.shards)
    for name in first.keys() & second.keys():
        one, other = first[name].double(), second[name].double()
        if one.shape != other.shape or not torch.allclose(
            one, other, rtol=compared.tolerance, atol=1e-12, equal_nan=True
        ):
            text = (
                f"the model's buffer {name!r} is set from the batch, and each worker has another part of it; "
                "set it from values that are averaged over the workers, or keep it out of the loss"
            )
            yield ScriptFinding(name="batch-buffer", text=text, place=compared.whole.place)
            return


def _known(compared: ComparedSizes) -> Iterator[ScriptFinding]:
    place = compared.whole.place
    if compared.has_norm:
        text = (
            "a batch norm takes its statistics from each worker's own part of the batch; that is a known "
            "difference, as in data-parallel training elsewhere: `deterministic=True` takes it away, where "
            "there is one optimizer, or a norm within samples, such as GroupNorm or LayerNorm"
        )
        yield ScriptFinding(name="batch-statistics", text=text, place=place, holds=False)
    if compared.has_drawn:
        text = (
            "dropout or other random numbers are drawn for each worker's part of the batch; that is a known "
            "difference, of the numbers and not of what is learnt: `deterministic=True` takes it away, where "
            "there is one optimizer, or drawing in the dataset, for each sample"
        )
        yield ScriptFinding(name="random-draws", text=text, place=place, holds=False)
