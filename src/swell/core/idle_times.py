"""The time for which gangs do no work yet, in a loop that is compiled; see `snapshot_columns.idle_s`."""

from __future__ import annotations

from swell.arrays import FloatArray, IntArray

#: A change that is overdue is expected to take longer by this share of the time by which it is.
OVERDUE_SHARE = 0.1

#: Of a number of workers, where some are packed into one number.
WORKERS_BITS = 17


def write_idle_times(
    now_s: float,
    since_s: FloatArray,
    is_launching: IntArray,
    held: IntArray,
    earlier_pauses: IntArray,
    starts: IntArray,
    workers: IntArray,
    start_s: FloatArray,
    resize_s: FloatArray,
    idle_s: FloatArray,
) -> None:
    """Write into `idle_s` (J,) for how long, at most, each gang with a change under way does no work yet.

    Args:
        since_s: (J,) when the change began; NaN: none is under way.
        earlier_pauses: (J,) the sizes of up to three changes before it, packed.
        starts: (J + 1,) where the options (O,) of each job begin.
    """
    bits, overdue_share = WORKERS_BITS, OVERDUE_SHARE
    for row in range(len(idle_s)):
        if since_s[row] != since_s[row]:
            continue
        cost_s = 0.0
        for at in range(starts[row], starts[row + 1]):
            if workers[at] <= held[row]:
                cost_s = start_s[at] if is_launching[row] else resize_s[at]
        for at in range(starts[row], starts[row + 1]):
            earlier = earlier_pauses[row]
            while earlier > 0:
                if workers[at] == earlier & ((1 << bits) - 1):
                    cost_s += resize_s[at]
                earlier >>= bits
        left_s = cost_s - max(now_s - since_s[row], 0.0)
        idle_s[row] = left_s if left_s > 0.0 else -overdue_share * left_s
