"""Learning rates for another batch than the one that they were chosen for.

A Swell job's global batch does not change with its workers. It may change where the job leaves it open, and
then `train.elastic(rate_rule=...)` does what is here: `S = batch / base_batch` is the *scale*, and a rule
says by how much the learning rate of the base batch is to be multiplied. A loop of one's own uses
`ScaledRate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch


# ---------------------------------------------------------------- rules: scale -> factor of the learning rate
def linear(scale: float) -> float:
    """S. For plain SGD as long as steps are small: S steps of the base batch go as far as one of this.

    References: Goyal et al., "Accurate, Large Minibatch SGD", arXiv:1706.02677, section 2.1.
    """
    return _checked(scale)


def square_root(scale: float) -> float:
    """sqrt(S). Keeps the variance of a step; what adaptive optimizers (Adam and its kin) ask for.

    References: Krizhevsky, "One weird trick for parallelizing convolutional neural networks",
        arXiv:1404.5997, section 5; Malladi et al., "On the SDEs and Scaling Rules for Adaptive Gradient
        Algorithms", arXiv:2205.10287, for Adam and RMSprop.
    """
    return math.sqrt(_checked(scale))


def gain_ratio(scale: float, variance: float, squared_norm: float) -> float:
    """(sigma^2 + mu^2) / (sigma^2 / S + mu^2): so many steps of the base batch is one of this batch worth.

    Between 1 and S: near S while gradients are mostly noise, near 1 once they all say the same. 1 for a
    gradient that is zero.

    Args:
        variance: sigma^2, the summed variance of a base batch's gradient, >= 0.
        squared_norm: mu^2, of the true gradient, >= 0.

    References: Johnson et al., "AdaScale SGD: A User-Friendly Algorithm for Distributed Training", ICML 2020,
        arXiv:2007.05105, Algorithm 1. For SGD, with momentum or without. It is the gain of Pollux, too (Qiao
        et al., OSDI 2021, section 3.1): (B / m0 + 1) / (B / m + 1), at batch m; B = m0 sigma^2 / mu^2.
    """
    _checked(scale)
    if not (variance >= 0 and squared_norm >= 0):
        raise ValueError(
            f"a variance of {variance:g} and a squared norm of {squared_norm:g}: neither can be below 0"
        )
    largest = max(variance, squared_norm)
    if largest == 0 or math.isinf(largest):
        return 1.0
    noise, signal = (
        variance / largest,
        squared_norm / largest,
    )  # their ratio counts: nothing under- or overflows
    return (noise + signal) / (noise / scale + signal)


#: A run that tells its noise measures one step in so many, and each of the first so many.
NOISE_INTERVAL = 16


def shows_parts(step: int, interval: int) -> bool:
    """Whether the parts of this step are measured, if one in `interval` is: 1 for each, 0 for none."""
    return interval > 0 and (step < interval or step % interval == 0)


class PartNorms(NamedTuple):
    """What the parts of a step's batch show of its gradient."""

    squared_norm: float  #: mean over the parts, each weighted with its share of the samples
    num_parts: int
    num_samples: int  #: of the step


@dataclass(frozen=True, slots=True)
class GradientMoments:
    """Variance and squared norm of a base batch's gradient, as estimated from one step."""

    variance: float  #: sigma^2, >= 0
    squared_norm: float  #: mu^2; below 0 if noise has it so: it is without bias


def moments(shard_squared_norms: Sequence[float], mean_squared_norm: float, scale: float) -> GradientMoments:
    """Estimate sigma^2 and mu^2 from the gradients of equal parts of one batch, without bias.

    Args:
        shard_squared_norms: |g_i|^2 of the mean gradient of each part, two parts at least.
        mean_squared_norm: |g|^2 of the mean of the g_i, which is the gradient that the step applies.
        scale: S of the whole batch.

    References: AdaScale SGD, appendix B.3, where each of the S parts is a base batch. Deviates: any number n
        of parts, of any size: one part has the variance n sigma^2 / S.
    """
    num = len(shard_squared_norms)
    if num < 2:
        raise ValueError(f"{num} part of a batch shows no variance; give the norms of two at least")
    return moments_of_parts(math.fsum(shard_squared_norms) / num, num, mean_squared_norm, scale)


def moments_of_parts(
    part_squared_norm: float, num_parts: int, mean_squared_norm: float, scale: float
) -> GradientMoments:
    """Estimate sigma^2 and mu^2 as `moments` does, from parts that need not be equal.

    Args:
        part_squared_norm: mean of |g_i|^2 over the parts, each weighted with its share of the samples.
        num_parts: two at least.

    References: AdaScale SGD, appendix B.3. Deviates: any number of parts of any sizes. With n samples in all
        and s^2 the variance of a sample's gradient, part i of n_i samples has E|g_i|^2 = mu^2 + s^2 / n_i, so
        the weighted mean over K parts has mu^2 + K s^2 / n, and the applied gradient mu^2 + s^2 / n.
    """
    scatter = max(0.0, part_squared_norm - mean_squared_norm)  # of the g_i about their mean
    variance = _checked(scale) * scatter / (num_parts - 1)
    return GradientMoments(variance, mean_squared_norm - variance / scale)


# ---------------------------------------------------------------- the rules on an optimizer
RULES: dict[str, Callable[[float], float]] = {"linear": linear, "square_root": square_root}
ADASCALE = "adascale"


@dataclass(slots=True)
class MovingMoments:
    """Running averages of sigma^2 and mu^2: the plain mean at first, later mostly of the latest steps."""

    variance: float = 0.0
    squared_norm: float = 0.0
    num_seen: int = 0

    def add(self, seen: GradientMoments, scale: float) -> None:
        """Add a step of this scale: in the end mostly the last 1000 / S steps count.

        References: AdaScale SGD, appendix B.3: theta = max(1 - S / 1000, 0).
        """
        self.mix(seen, scale / 1000.0)

    def mix(self, seen: GradientMoments, least_share: float) -> None:
        """Add a measurement. It has so much of the average at least, and more as long as there are few."""
        self.num_seen += 1
        newest_share = min(1.0, max(1.0 / self.num_seen, least_share))
        self.variance += newest_share * (seen.variance - self.variance)
        self.squared_norm += newest_share * (seen.squared_norm - self.squared_norm)

    def gain(self, scale: float) -> float:
        return (
            gain_ratio(scale, max(0.0, self.variance), max(0.0, self.squared_norm)) if self.num_seen else 1.0
        )


class ScaledRate:
    """Multiplies an optimizer's learning rates, for the time of each step, by what a rule says of the batch.

    What schedulers see and set stays the rate of the base batch, so they compose. Works with any torch
    optimizer, and inside `run.step`, for it hooks into `optimizer.step`. `elastic(rate_rule=...)` makes one
    whose base batch is the job's own and whose batch is that of each step. Where the base batch is another
    one, its state survives resizes and suspensions as one of elastic()'s objects::

        rate = ScaledRate(optimizer, base_batch=64, rule="square_root")
        run = train.elastic(model, optimizer, loader, state={"rate": rate})
        rate.batch = run.global_batch

    Args:
        base_batch: samples a step that the optimizer's learning rate was chosen for.
        rule: linear, square_root or adascale. The last one must be shown gradients with `observe`.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, base_batch: int, rule: str = "linear") -> None:
        if rule not in (*RULES, ADASCALE):
            raise ValueError(f"there is no rule {rule!r}; choose from {', '.join((*RULES, ADASCALE))}")
        self.rule = rule
        self.base_batch = _counted("base_batch", base_batch)
        self.effective_steps = 0.0  #: base batches that the steps so far were worth: where a schedule stands
        self._batch = self.base_batch
        self._noise = MovingMoments()
        self._optimizer = optimizer
        self._plain: list[Any] | None = None  # learning rates, while they are scaled
        self._hooks = (
            optimizer.register_step_pre_hook(lambda *_: self._scale()),
            optimizer.register_step_post_hook(lambda *_: self._finish()),
        )

    @property
    def batch(self) -> int:
        """Samples of the coming steps."""
        return self._batch

    @batch.setter
    def batch(self, batch: int) -> None:
        self._batch = _counted("batch", batch)

    @property
    def needs_parts(self) -> bool:
        """Whether it is to be shown gradients, with `observe` or `observe_parts`."""
        return self.rule not in RULES

    @property
    def scale(self) -> float:
        return self._batch / self.base_batch

    @property
    def factor(self) -> float:
        """Factor on the learning rate in the next step."""
        return self.factor_at(self._batch)

    def factor_at(self, batch: int) -> float:
        """Return the factor on the learning rate in a step of this batch."""
        scale = batch / self.base_batch
        return RULES[self.rule](scale) if self.rule in RULES else self._noise.gain(scale)

    def observe(self, shard_squared_norms: Sequence[float], mean_squared_norm: float) -> None:
        """Show what the gradients of the coming step say of noise: see `moments`. The same on all workers.

        A step whose gradients are not finite shows nothing.
        """
        self._note(moments(shard_squared_norms, mean_squared_norm, self.scale), self.scale)

    def observe_parts(self, parts: PartNorms, mean_squared_norm: float) -> None:
        """Show the noise of gradients as `observe` does, from parts that need not be equal.

        A single part shows nothing.
        """
        if parts.num_parts > 1:
            scale = parts.num_samples / self.base_batch
            self._note(moments_of_parts(parts.squared_norm, parts.num_parts, mean_squared_norm, scale), scale)

    def _note(self, seen: GradientMoments, scale: float) -> None:
        if math.isfinite(seen.variance) and math.isfinite(seen.squared_norm):
            self._noise.add(seen, scale)

    def detach(self) -> None:
        """Leave the optimizer as it was."""
        self._restore()
        for hook in self._hooks:
            hook.remove()

    def state_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "base_batch": self.base_batch,
            "batch": self._batch,
            "effective_steps": self.effective_steps,
            "noise": asdict(self._noise),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ValueError: the state is of another rule, or of rates that were chosen for another batch."""
        theirs, own = (state["rule"], state["base_batch"]), (self.rule, self.base_batch)
        if theirs != own:
            raise ValueError(
                f"the state scales {theirs[0]} from a batch of {theirs[1]}, this one {own[0]} from {own[1]}; "
                "use the same rule and base_batch, or start without that state"
            )
        self._batch, self.effective_steps = state["batch"], state["effective_steps"]
        self._noise = MovingMoments(**state["noise"])

    def _scale(self) -> None:
        self._restore()  # an optimizer that raised has left them scaled
        self._plain = [group["lr"] for group in self._optimizer.param_groups]
        for group in self._optimizer.param_groups:
            group["lr"] = group["lr"] * self.factor

    def _finish(self) -> None:
        self.effective_steps += self.factor if self.rule == ADASCALE else self.scale
        self._restore()

    def _restore(self) -> None:
        if self._plain is not None:
            for group, rate in zip(self._optimizer.param_groups, self._plain, strict=True):
                group["lr"] = rate
            self._plain = None


def _checked(scale: float) -> float:
    if not (scale > 0 and math.isfinite(scale)):
        raise ValueError(f"a batch cannot be {scale:g} times another; a scale is above 0 and finite")
    return scale


def _counted(name: str, batch: int) -> int:
    if batch < 1:
        raise ValueError(f"{name} is {batch}; a step takes one sample at least")
    return batch
