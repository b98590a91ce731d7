"""What a policy sees of each job at an instant, worked out from what its row says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from swell.arrays import FloatArray, read_only
from swell.model.options import Options

#: A change that is overdue is expected to take longer by this share of the time by which it is.
OVERDUE_SHARE = 0.1
#: Of a number of workers, where some are packed into one number.
WORKERS_BITS = 17

#: (J,) columns of the table by name, read-only.
Columns = Mapping[str, Any]


def advanced(now_s: float, columns: Columns, start_cost_s: FloatArray) -> dict[str, FloatArray]:
    """Columns of progress and attained service, extrapolated to `now_s` at the present rates."""
    elapsed_s, rate_per_s = np.maximum(now_s - columns["as_of_s"], 0.0), columns["rate_now_per_s"]
    done_steps = columns["done_steps"] + rate_per_s * elapsed_s
    left = columns["total_steps"] - done_steps
    # It should have ended: the longer it has not, the longer whatever holds it up may take.
    overdue = np.where(left < 0.0, np.minimum(-left, rate_per_s * start_cost_s), 0.0)
    return {
        "remaining_steps": read_only(np.maximum(left, columns["least_steps"]) + overdue),
        "done_steps": read_only(done_steps),
        "attained_device_s": read_only(columns["attained_device_s"] + columns["held_devices"] * elapsed_s),
    }


def idle_s(
    now_s: float, columns: Columns, options: Options, option_start_s: FloatArray, option_resize_s: FloatArray
) -> FloatArray:
    """(J,) for which, at most, each gang does no work yet; 0 of one that trains.

    Pauses of one gang are waited out one after the other: the latest three before this one, too.
    """
    since_s, idle = columns["changing_since_s"], np.zeros(len(options.num))
    rows = (~np.isnan(since_s)).nonzero()[0]
    if len(rows) and len(options.workers):
        option = options.at(columns["held_workers"])[rows]
        cost_s = np.where(columns["is_launching"][rows], option_start_s[option], option_resize_s[option])
        cost_s *= option >= 0
        earlier = columns["earlier_pauses"].copy()
        while earlier[rows].any():
            workers = earlier & ((1 << WORKERS_BITS) - 1)
            option = options.at(workers)
            is_size = (options.workers_of(option) == workers) & (option >= 0)
            cost_s += (option_resize_s[option] * is_size)[rows]
            earlier >>= WORKERS_BITS
        left_s = cost_s - np.maximum(now_s - since_s[rows], 0.0)
        idle[rows] = np.where(left_s > 0.0, left_s, -OVERDUE_SHARE * left_s)
    return read_only(idle)


def with_waits(
    now_s: float, columns: Columns, options: Options, option_start_s: FloatArray, most_wait_s: float
) -> FloatArray:
    """(O,) what launches cost from now on: until others have left the devices, and until the first step."""
    if most_wait_s == 0.0:
        return option_start_s
    since_s = columns["waits_since_s"]
    left_s = np.maximum(most_wait_s - np.where(np.isnan(since_s), 0.0, now_s - since_s), 0.0)
    return read_only(option_start_s + np.repeat(left_s, options.num))
