"""What equal sharing would have given tasks, so that no other sharing leaves one far behind it.

Time is the work that a machine has done for all tasks together: nothing depends on how fast it is.
"""

from __future__ import annotations

import numpy as np

from swell.arrays import FloatArray, IntArray


def served_equally(left: FloatArray, work: float) -> FloatArray:
    """(V,) what each gets of `work`, equal parts, but none more than is `left` (V,) of it."""
    order = np.argsort(left, kind="stable")
    served = np.zeros(len(left))
    for place, task in enumerate(order.tolist()):
        served[task] = min(float(left[task]), work / (len(left) - place))
        work -= served[task]
    return served


def fair_ends(left: FloatArray) -> FloatArray:
    """(V,) work until each task ends if all get equal parts and none arrives.

    References: Friedman and Henderson, "Fairness and efficiency in web server protocols", 2003: to serve by
        these ends makes no task later than equal parts would.
    """
    ends: FloatArray = np.minimum(left[:, None], left[None, :]).sum(axis=1)
    return ends


def urgent(left: FloatArray, until: FloatArray, slowest: FloatArray, leak: float, margin: float) -> IntArray:
    """Tasks that must be served now so that all end in time, the first due first; none: no need.

    Args:
        left: (V,) work of each.
        until: (V,) work of the machine by which it is due.
        slowest: (V,) least work of the machine in which one unit of this task can be done.
        leak: what each task that is not served gets, for each unit of one that is.
        margin: work of the machine until this is asked again.
    """
    order = np.argsort(until, kind="stable")
    later = np.arange(len(left))[::-1]
    together = np.cumsum(left[order]) * (1.0 + leak * later)
    spare = until[order] - np.maximum(together, (slowest * left)[order])
    short = np.flatnonzero(spare <= margin)
    return order[: short[-1] + 1] if len(short) else order[:0]
