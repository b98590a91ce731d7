"""What is told of a batch's gradient that differs between one worker and two.

Few causes are named: those that the numbers of the compared steps show. Of others it is said what differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from swell.train.data.sample_schedule import Share
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

    share: Share  #: that its worker computed
    loss: float
    gradient: torch.Tensor  #: as `run.step` got it; of several passes their sum
    backward: torch.Tensor  #: as the backward pass left it
    is_by_hand: bool  #: the script changed it between the two
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
        return self._is_other(self.again.gradient, self.again.loss)

    @property
    def differs(self) -> bool:
        """The update of two workers, or the loss that they report, is another one than of one worker."""
        if self.shards is None:
            return False
        first, second = self.shards
        gradient = self._mean(first.gradient, second.gradient)
        parts = [first.gradient, second.gradient]
        return self._is_other(gradient, self._mean(first.loss, second.loss), parts)

    def _mean(self, first: Any, second: Any) -> Any:
        """What `run.step` makes of what two workers have computed."""
        assert self.shards is not None  # noqa: S101 - they are compared
        one, other = ([*shard.share.passes] for shard in self.shards)
        divisor = self.shards[0].share.divisor(sum(part.word for part in one + other))
        total = first * sum(part.factor for part in one) + second * sum(part.factor for part in other)
        return total / (divisor or 1.0)

    def _is_other(self, gradient: torch.Tensor, loss: float, parts: Sequence[torch.Tensor] = ()) -> bool:
        is_other = differ(self.whole.gradient, gradient, parts, self.tolerance)
        return is_other or not self._is_near(self.whole.loss, loss)

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
    def other_buffer(self) -> str | None:
        """The model's first buffer that two workers have set otherwise from their parts of a batch."""
        first, second = (shard.buffers for shard in self.shards) if self.shards is not None else ({}, {})
        for name in first.keys() & second.keys():
            one, other = first[name].double(), second[name].double()
            if one.shape != other.shape or not torch.allclose(
                one, other, rtol=self.tolerance, atol=1e-12, equal_nan=True
            ):
                return name
        return None

    def mixture(self) -> Mixture:
        assert self.shards is not None  # noqa: S101 - they differ
        first, second = (shard.backward for shard in self.shards)
        return mixture(self.whole.backward, first, second, self.tolerance)

    @property
    def is_changed_by_hand(self) -> bool:
        """The backward pass is right at any size: what the script then does to the gradient is not."""
        assert self.shards is not None  # noqa: S101 - they differ
        first, second = (shard.backward for shard in self.shards)
        is_right = not differ(self.whole.backward, self._mean(first, second), [first, second], self.tolerance)
        return is_right and any(result.is_by_hand for result in self.results)


def causes_of(plain: ComparedSizes, fixed: ComparedSizes | None) -> list[ScriptFinding]:
    """What the job's owner is told.

    Args:
        fixed: the same with random numbers and batch statistics that do not depend on the shard; None: the
            script has neither, or nothing differs.
    """
    place = plain.whole.place
    if plain.is_unsteady:
        kept = f"; {listed(plain.carried)} had what another worker sets there" if plain.carried else ""
        return [_finding("hidden-state", place, kept=kept)]
    buffer = plain.other_buffer
    found = [] if buffer is None else [_finding("batch-buffer", place, buffer=buffer)]
    if names := plain.each_pass:
        found.append(_finding("each-pass", place, holds=plain.depends_on_passes, names=listed(names)))
    if not plain.differs:
        return found
    if fixed is not None:
        known = {"batch-statistics": plain.has_norm, "random-draws": plain.has_drawn}
        found += [_finding(name, place, holds=False) for name, is_so in known.items() if is_so]
    compared = fixed or plain
    name = _cause(compared, is_certain=fixed is None and buffer is None) if compared.differs else None
    return found if name is None else [*found, _finding(name, place)]


def fails_with_part(error: str, place: str) -> ScriptFinding:
    """Return the finding that the script went well with a whole batch, and not with a part of it."""
    return _finding("part-of-batch", place, error=error.strip())


def ends_by_part(found: LoopExit) -> ScriptFinding:
    """Return the finding that workers would leave their loop at different steps."""
    text = (
        f"{listed(found.names)} in {found.function}() changes with the samples of each worker's own part of "
        "the batch, and decides when the loop ends: workers would leave it at different steps. Decide by "
        "what is the same on all workers, as what `run.step` returns is"
    )
    return ScriptFinding(name="hidden-state", text=text, place=found.place)


def listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _finding(name: str, place: str, holds: bool = True, **words: str) -> ScriptFinding:
    return ScriptFinding(name=name, text=_TEXTS[name].format(**words), place=place, holds=holds)


def _cause(compared: ComparedSizes, is_certain: bool) -> str | None:
    """The name of the cause that the numbers show, if they show one.

    Args:
        is_certain: nothing else explains the difference.
    """
    mixed, tolerance = compared.mixture(), compared.tolerance
    if compared.is_changed_by_hand:
        return "changed-gradient"
    for name, first, second in (
        ("sum-loss", 1.0, 1.0),
        ("weighted-mean", mixed.first, 1.0 - mixed.first),
        ("batch-dependent", mixed.second, mixed.second),
    ):
        if mixed.is_exact and mixed.is_near(first, second, tolerance):
            return name
    return "batch-dependent" if is_certain else None


_TEXTS = {
    "hidden-state": "the same batch gives another gradient the second time: the step depends on what the "
    "script keeps and changes by itself, which each worker has for itself{kept}; take it from `run.steps` or "
    f"from what `run.step` returns, or keep it out of the loss ({PAGE})",
    "batch-buffer": "the model's buffer '{buffer}' is set from the batch, and each worker has another part "
    "of it; set it from values that are averaged over the workers, or keep it out of the loss",
    "each-pass": "{names} changes with each pass of a step, and a worker that has more of its samples makes "
    "more passes; put what belongs to a step after `run.step`, under `if run.has_stepped:`",
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
    "part-of-batch": "the script fails with a part of a batch, and not with all of it ({error}): each of "
    "several workers gets a part, and parts differ in size. Take sizes from the batch, as `len(x)`, and keep "
    "nothing from one batch to the next whose size is that of a batch",
    "batch-statistics": "a batch norm takes its statistics from each worker's own part of the batch; that is "
    "a known difference, as in data-parallel training elsewhere: `deterministic=True` takes it away, where "
    "there is one optimizer, or a norm within samples, such as GroupNorm or LayerNorm",
    "random-draws": "dropout or other random numbers are drawn for each worker's part of the batch; that is "
    "a known difference, of the numbers and not of what is learnt: `deterministic=True` takes it away, where "
    "there is one optimizer, or drawing in the dataset, for each sample",
}
