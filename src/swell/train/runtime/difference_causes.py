"""Why a batch's gradient differs between one worker and two, cause by cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch

from swell.train.runtime.gradient_differences import Mixture, Tolerance, differ, mixture
from swell.train.runtime.loop_exits import LoopExit
from swell.train.runtime.step_watch import CallsSeen
from swell.train.state import codec
from swell.wire.findings import ScriptFinding


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe has shown. Gradients are `sampled`."""

    loss: float  #: of the script
    gradient: torch.Tensor  #: as the script left it
    backward: torch.Tensor  #: as the backward pass left it
    is_changed: bool  #: by the script, between the two
    weight: float  #: of its gradient in the sum over the workers
    total_loss: float  #: over the workers so far
    total_gradient: torch.Tensor  #: that would go into the update, over the workers so far
    buffers: dict[str, torch.Tensor]  #: of the model, batch norms' apart
    has_drawn: bool  #: random numbers, in the loop's body
    seen: CallsSeen
    place: str  #: of `run.step`
    left: codec.Tree = field(default_factory=dict)  #: what the script kept when it asked for the next batch


@dataclass(frozen=True, slots=True)
class ComparedSizes:
    """One batch as a whole, in two shards, and as a whole once more."""

    whole: ProbeResult
    shards: tuple[ProbeResult, ProbeResult] | None  #: None: any number of workers has the same
    again: ProbeResult
    tolerance: Tolerance
    has_several_optimizers: bool = False  #: then `deterministic=True` is refused
    #: Variables of the script that its worker's part of the batch sets, and on which a gradient depends; each
    #: with the place where it is set.
    of_parts: Mapping[str, str] = field(default_factory=dict)
    #: Variables that change with each pass of a step, with their places, and whether that holds the job.
    each_pass: Mapping[str, tuple[str, bool]] = field(default_factory=dict)

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
        return abs(one - other) <= self.tolerance.plain * max(*losses, 1e-300)

    @property
    def results(self) -> list[ProbeResult]:
        return [self.whole, *(self.shards or ()), self.again]

    @property
    def has_drawn(self) -> bool:
        return any(result.has_drawn for result in self.results)

    @property
    def norm(self) -> str:
        return _first(result.seen.norm for result in self.results)

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
        if not any(result.is_changed for result in self.results):
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
    if plain.of_parts:
        return [_set_by_parts(name, place or plain.whole.place) for name, place in plain.of_parts.items()]
    found = [*_buffers(plain), *_of_each_pass(plain)]
    if not plain.differs:
        return found
    if fixed is None:
        return [*found, *_cause(plain, is_certain=not [*_buffers(plain)])]
    found += _known(plain)
    return [*found, *_cause(fixed, is_certain=False)] if fixed.differs else found


def of_divisor(result: ProbeResult) -> list[ScriptFinding]:
    """The hint that a loss is divided as if gradients were accumulated over batches, and they are not."""
    divisor = result.seen.divisor
    if divisor is None or result.seen.num_backwards != 1:
        return []
    text = (
        f"the loss is divided by {divisor.text} = {divisor.value}, and each batch has one backward pass and "
        f"a step of its own: gradients are 1/{divisor.value} of the mean over the batch; take the division "
        "out"
    )
    place = f"{result.place.rpartition(':')[0]}:{divisor.line}"
    return [ScriptFinding(name="left-divisor", text=text, place=place, holds=False)]


def fails_with_part(error: str, place: str) -> ScriptFinding:
    """Return the finding that the script went well with a whole batch, and not with a part of it."""
    text = (
        f"the script fails with a part of a batch, and not with all of it ({error.strip()}): each of several "
        "workers gets a part, and parts differ in size. Take sizes from the batch, as `len(x)`, and keep "
        "nothing from one batch to the next whose size is that of a batch"
    )
    return ScriptFinding(name="part-of-batch", text=text, place=place)


def _cause(compared: ComparedSizes, is_certain: bool) -> Iterator[ScriptFinding]:
    """The finding that the numbers show, if they show one.

    Args:
        is_certain: nothing else explains the difference.
    """
    whole, mixed = compared.whole, compared.mixture()
    tolerance = compared.tolerance
    if compared.is_changed_by_hand:
        yield _changed_gradient(whole)
    elif (mixed.is_exact and mixed.is_near(1.0, 1.0, tolerance)) or compared.is_sum_of_losses:
        yield _sum_loss(whole)
    elif mixed.is_exact and mixed.is_near(mixed.second, mixed.second, tolerance):
        yield _scaled_loss(whole, mixed)
    elif mixed.is_exact and mixed.is_near(mixed.first, 1.0 - mixed.first, tolerance):
        yield _weighted_mean(compared)
    elif is_certain:
        yield _unexplained(compared)


def _unsteady(compared: ComparedSizes) -> ScriptFinding:
    if loader := _first(result.seen.loader for result in compared.results):
        text = (
            "a second DataLoader is read in the loop: every worker reads all of it, so two workers see other "
            "batches of it than one does; make both one dataset whose samples hold both parts"
        )
        return ScriptFinding(name="second-loader", text=text, place=loader)
    text = (
        "the same batch gives another gradient the second time: the step depends on something that the "
        "script keeps and changes by itself (a counter, a running value, a generator of its own), which "
        "each worker has for itself; take it from `run.steps`, or keep it in `run.state`"
    )
    return ScriptFinding(name="hidden-state", text=text, place=compared.whole.place)


def _set_by_parts(name: str, place: str) -> ScriptFinding:
    text = (
        f"`{name}` changes with the samples of each worker's own part of the batch, and the training depends "
        "on it; change it by what is the same on all workers, as what `run.step` returns is, or keep it out "
        "of the loss"
    )
    return ScriptFinding(name="hidden-state", text=text, place=place)


def ends_by_part(found: LoopExit) -> ScriptFinding:
    """Return the finding that workers would leave their loop at different steps."""
    names = ", ".join(f"`{name}`" for name in found.names)
    text = (
        f"{names} in {found.function}() changes with the samples of each worker's own part of the batch, and "
        "decides when the loop ends: workers would leave it at different steps. Decide by what is the same "
        "on all workers, as what `run.step` returns is"
    )
    return ScriptFinding(name="hidden-state", text=text, place=found.place)


def _of_each_pass(compared: ComparedSizes) -> Iterator[ScriptFinding]:
    for name, (place, holds) in compared.each_pass.items():
        text = (
            f"`{name}` changes with each pass of a step, and a worker that has more of its samples makes "
            "more passes; put what belongs to a step after `run.step`, under `if run.has_stepped:`"
        )
        yield ScriptFinding(name="each-pass", text=text, place=place or compared.whole.place, holds=holds)


def _buffers(compared: ComparedSizes) -> Iterator[ScriptFinding]:
    if compared.shards is None:
        return
    first, second = (shard.buffers for shard in compared.shards)
    for name in first.keys() & second.keys():
        one, other = first[name].double(), second[name].double()
        if one.shape != other.shape or not torch.allclose(
            one, other, rtol=compared.tolerance.plain, atol=1e-12, equal_nan=True
        ):
            text = (
                f"the model's buffer {name!r} is set from the batch, and each worker has another part of it; "
                "set it from values that are averaged over the workers, or keep it out of the loss"
            )
            yield ScriptFinding(name="batch-buffer", text=text, place=compared.whole.place)
            return


_OTHER_NORMS = "a norm within samples, such as GroupNorm or LayerNorm, has none of it"
_DRAWN_BEFORE = "noise that the dataset draws for each sample has none of it"


def _ways_out(compared: ComparedSizes, other: str) -> str:
    """Return what takes a known difference away; `other` is what does with several optimizers."""
    return other if compared.has_several_optimizers else "`deterministic=True` takes it away"


def _known(compared: ComparedSizes) -> Iterator[ScriptFinding]:
    if place := compared.norm:
        text = (
            "a batch norm takes its statistics from each worker's own part of the batch; that is a known "
            f"difference, as in data-parallel training elsewhere: {_ways_out(compared, _OTHER_NORMS)}"
        )
        yield ScriptFinding(name="batch-statistics", text=text, place=place, holds=False)
    if compared.has_drawn:
        text = (
            "dropout or other random numbers are drawn for each worker's part of the batch; that is a known "
            f"difference, of the numbers and not of what is learnt: {_ways_out(compared, _DRAWN_BEFORE)}"
        )
        yield ScriptFinding(name="random-draws", text=text, place=compared.whole.place, holds=False)


def _changed_gradient(whole: ProbeResult) -> ScriptFinding:
    text = (
        "the script changes the gradient by hand between the backward pass and `run.step`, where each worker "
        "has that of its own part of the batch; clip with torch's `clip_grad_norm_` or `clip_grad_value_`, "
        "which `run.step` carries out on the average of all workers, or put the change into the loss"
    )
    return ScriptFinding(name="changed-gradient", text=text, place=whole.place)


def _sum_loss(whole: ProbeResult) -> ScriptFinding:
    text = (
        "the loss is a sum over the batch's samples, maybe divided by a constant, so two workers' average is "
        'half of it; divide by `len(batch)`, or declare it: `elastic(..., loss_reduction="sum")`'
    )
    return ScriptFinding(name="sum-loss", text=text, place=whole.seen.sum_loss or _loss_place(whole))


def _scaled_loss(whole: ProbeResult, mixed: Mixture) -> ScriptFinding:
    text = (
        f"the batch's gradient is {mixed.first:.3g} times the sum of its parts' gradients: the loss is "
        "divided by something that depends on the size of the part; give `run.step` the mean over its samples"
    )
    return ScriptFinding(name="scaled-loss", text=text, place=_loss_place(whole))


def _weighted_mean(compared: ComparedSizes) -> ScriptFinding:
    whole = compared.whole
    what = whole.seen.weights or "tokens, masks or weights"
    text = (
        f"the loss is a mean over more than samples ({what}), and workers are weighted by their samples; "
        "tell what it is a mean over: `run.step(loss, weight=N)`, N the sum of the weights, or the number of "
        "tokens that count"
    )
    return ScriptFinding(
        name="weighted-mean", text=text, place=whole.seen.weighted_loss or _loss_place(whole)
    )


def _unexplained(compared: ComparedSizes) -> ScriptFinding:
    whole = compared.whole
    if _first(result.seen.weighted_loss for result in compared.results):
        return _weighted_mean(compared)
    if loader := _first(result.seen.loader for result in compared.results):
        return ScriptFinding(name="second-loader", text=_unsteady(compared).text, place=loader)
    text = (
        "a batch's gradient is not the mean of its samples' gradients: the loss compares samples of a batch "
        "with each other, or a hook changes the gradient, so the result depends on how many samples a worker "
        "has: keep to one worker, or make the loss a mean over samples"
    )
    return ScriptFinding(name="batch-dependent", text=text, place=_loss_place(whole))


def _loss_place(whole: ProbeResult) -> str:
    return whole.seen.loss or whole.place


def _first(places: Iterator[str]) -> str:
    return next((place for place in places if place), "")
