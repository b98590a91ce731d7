"""Learning rates for another batch than the one that they were chosen for, and the noise of gradients.

A Swell job's global batch does not change with its workers. It may change where the job leaves it open, and
then `train.elastic(rate_rule=...)` multiplies the learning rates by what a rule says of the *scale*
`S = batch / base_batch`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


# ---------------------------------------------------------------- rules: scale -> factor of the learning rate
def linear(scale: float) -> float:
    """S. For plain SGD as long as steps are small: S steps of the base batch go as far as one of this.

    References: Goyal et al., "Accurate, Large Minibatch SGD", arXiv:1706.02677, section 2.1.
    """
    return scale


def square_root(scale: float) -> float:
    """sqrt(S). Keeps the variance of a step; what adaptive optimizers (Adam and its kin) ask for.

    References: Krizhevsky, "One weird trick for parallelizing convolutional neural networks",
        arXiv:1404.5997, section 5; Malladi et al., "On the SDEs and Scaling Rules for Adaptive Gradient
        Algorithms", arXiv:2205.10287, for Adam and RMSprop.
    """
    return math.sqrt(scale)


RULES: dict[str, Callable[[float], float]] = {"linear": linear, "square_root": square_root}


# ---------------------------------------------------------------- the noise of gradients
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


def moments_of_parts(
    part_squared_norm: float, num_parts: int, mean_squared_norm: float, scale: float
) -> GradientMoments:
    """Estimate sigma^2 and mu^2 from the gradients of parts of one batch, without bias.

    Args:
        part_squared_norm: mean of |g_i|^2 over the parts, each weighted with its share of the samples.
        num_parts: two at least.
        mean_squared_norm: |g|^2 of the mean of the g_i, which is the gradient that the step applies.
        scale: S of the whole batch.

    References: AdaScale SGD (Johnson et al., ICML 2020, arXiv:2007.05105), appendix B.3, where each of the S
        parts is a base batch. Deviates: any number of parts of any sizes. With n samples in all
        and s^2 the variance of a sample's gradient, part i of n_i samples has E|g_i|^2 = mu^2 + s^2 / n_i, so
        the weighted mean over K parts has mu^2 + K s^2 / n, and the applied gradient mu^2 + s^2 / n.
    """
    scatter = max(0.0, part_squared_norm - mean_squared_norm)  # of the g_i about their mean
    variance = scale * scatter / (num_parts - 1)
    return GradientMoments(variance, mean_squared_norm - variance / scale)


@dataclass(slots=True)
class MovingMoments:
    """Running averages of sigma^2 and mu^2: the plain mean at first, later mostly of the latest steps."""

    variance: float = 0.0
    squared_norm: float = 0.0
    num_seen: int = 0

    def mix(self, seen: GradientMoments, least_share: float) -> None:
        """Add a measurement. It has so much of the average at least, and more as long as there are few."""
        self.num_seen += 1
        newest_share = min(1.0, max(1.0 / self.num_seen, least_share))
        self.variance += newest_share * (seen.variance - self.variance)
        self.squared_norm += newest_share * (seen.squared_norm - self.squared_norm)
