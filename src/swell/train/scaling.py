"""Learning rates for another batch than the one that they were chosen for.

A Swell job's global batch does not change with its workers. It may change where the job leaves it open, and
then `train.elastic(rate_rule=...)` multiplies the learning rates by what a rule says of the *scale*
`S = batch / base_batch`.
"""

from __future__ import annotations

import math
from collections.abc import Callable


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


#: By name: the factor of the learning rates at a scale.
RULES: dict[str, Callable[[float], float]] = {"linear": linear, "square_root": square_root}
