"""Time between two checkpoints: fixed, or the one that loses least training.

The scheduler, workers and simulations work it out in the same way, so each knows what the others do.
"""

from __future__ import annotations

import math

#: A new gang has nothing to fall back on: its first checkpoint comes no later.
FIRST_S = 5.0
#: Where the interval is fixed: between two checkpoints, in times of what one takes.
REST_PER_SAVE = 10.0
#: The interval where nothing is known of losses, as in a run without a platform.
DEFAULT_S = 30.0

#: A chosen interval is no shorter: training that is lost takes a start of seconds in any case.
LEAST_S = 5.0
#: A chosen interval is no longer: a rate of losses that is measured on few losses may be far too low.
MOST_S = 3600.0


def best_interval_s(save_s: float, mean_time_to_loss_s: float) -> float:
    """Training between two checkpoints that makes the expected loss of time least.

    Args:
        save_s: that training stands still for a checkpoint; what is written in the background is not in it.
        mean_time_to_loss_s: until training that is not saved is lost, exponentially distributed, > 0.

    References: Young, "A first order approximation to the optimum checkpoint interval", 1974: the square
        root of 2 save_s mean_time_to_loss_s. Daly, "A higher order estimate of the optimum checkpoint
        interval for restart dumps", 2006, Eq. 37: for saves that are not short against the time to a loss.
    Deviates: it is at least `LEAST_S` and at most `MOST_S`.
    """
    if save_s >= 2.0 * mean_time_to_loss_s:
        return min(max(mean_time_to_loss_s, LEAST_S), MOST_S)
    ratio = save_s / (2.0 * mean_time_to_loss_s)
    young_s = math.sqrt(2.0 * save_s * mean_time_to_loss_s)
    daly_s = young_s * (1.0 + math.sqrt(ratio) / 3.0 + ratio / 9.0) - save_s
    return min(max(daly_s, LEAST_S), MOST_S)


def interval_s(fixed_s: float | None, mean_time_to_loss_s: float | None, save_s: float | None) -> float:
    """Time from the end of a checkpoint until the next one is due.

    Args:
        fixed_s: the interval that was asked for; None: it is chosen.
        mean_time_to_loss_s: as `best_interval_s` takes it; None: not known.
        save_s: what a checkpoint takes from training; None: not measured yet.
    """
    if fixed_s is not None or mean_time_to_loss_s is None:
        return max(DEFAULT_S if fixed_s is None else fixed_s, REST_PER_SAVE * (save_s or 0.0))
    return best_interval_s(save_s or 0.0, mean_time_to_loss_s)
