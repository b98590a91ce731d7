"""How gangs that compete for the cores of one node divide them: numbers in, numbers out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from swell.model.share_mode import ShareMode


def by_weight(cores: float, demands: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Weighted max-min fairness (water-filling): cores that one does not use go to the others, by weight.

    As the kernel divides CPU time under `cpu.weight` and `cpu.shares`.

    Args:
        demands: cores that each would use alone, >= 0.
        weights: relative to one another, > 0.

    Returns:
        Cores of each: all of its demand where there are enough.

    Complexity: O(n log n).
    """
    if sum(demands) <= cores:
        return list(demands)
    given = list(demands)
    order = sorted(range(len(demands)), key=lambda at: demands[at] / weights[at])
    left, left_weights = cores, [*accumulate(weights[at] for at in reversed(order))][::-1]
    for place, at in enumerate(order):
        level = left / left_weights[place]
        if demands[at] > level * weights[at]:  # and so do all that follow
            for other in order[place:]:
                given[other] = level * weights[other]
            break
        left -= demands[at]
    return given


def by_quota(cores: float, demands: Sequence[float], shares: Sequence[float]) -> list[float]:
    """Each gets its share of all cores at most, used or not; where these are too few, equal parts.

    As under `cpu.max` and `cpu.cfs_quota_us`.

    Args:
        shares: in (0, 1].
    """
    limits = [min(demand, share * cores) for demand, share in zip(demands, shares, strict=True)]
    return by_weight(cores, limits, [1.0] * len(limits))


#: What can be simulated of what a share may mean.
RULES: dict[ShareMode, Callable[[float, Sequence[float], Sequence[float]], list[float]]] = {
    ShareMode.WEIGHT: by_weight,
    ShareMode.QUOTA: by_quota,
}


def parse_share_mode(text: str) -> ShareMode:
    """Raises ValueError for one that is not simulated."""
    if text not in [*RULES]:
        raise ValueError(f"{text!r} is not known; choose one of {', '.join(RULES)}")
    return ShareMode(text)
