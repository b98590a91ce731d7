"""The points of a job's throughput: rates by workers and batch, and what each was made from.

References: Saxena et al., "Effective Elastic Scaling of Deep Learning Workloads", MASCOTS 2020, section
    III-B, T_j(b, k) and b_j^opt(k).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.throughput import EstimateSource, ThroughputPoint
from swell.throughput import open_batches
from swell.throughput.estimate_margins import class_of
from swell.throughput.learnt import Learnt

#: Batches over the range of an open batch, in equal ratios, that each number of workers is shown with.
NUM_BATCHES = 6


def points_of(
    learnt: Learnt, margins: FloatArray, sizes: IntArray, hosts: IntArray
) -> tuple[ThroughputPoint, ...]:
    """Points at (K,) numbers of workers, each with the batches that it can have.

    Args:
        margins: by class; see `EstimateMargins`.
        hosts: (K,) that so many workers are on.
    """
    best = _best_batches(learnt, sizes, hosts)
    classes = class_of(learnt.kind, learnt.bases(sizes, hosts))
    margin = margins[classes].tolist()
    points = []
    for place, size in enumerate(sizes.tolist()):
        one, on = sizes[place : place + 1], hosts[place : place + 1]
        for batch in _batches(learnt, size, best[place]):
            batches = np.array([[batch]], dtype=np.int64)
            step_s = float(learnt.batch_step_s(one, batches, on)[0, 0])
            point = ThroughputPoint(
                workers=size,
                nodes=int(on[0]),
                batch=batch,
                step_s=step_s,
                samples_per_s=batch / step_s,
                source=source_of(learnt, size, batch, int(on[0])),
                margin=margin[place],
                is_best=batch == best[place],
            )
            points.append(point)
    return tuple(points)


def _best_batches(learnt: Learnt, sizes: IntArray, hosts: IntArray) -> list[int]:
    """(K,) the best batch of each size, b_j^opt(k); 0 where none is possible."""
    curve = learnt.curve
    if curve.range_of_batches is not None:
        return [int(each) for each in learnt.best_batches(sizes, curve.global_batch, hosts)[1]]
    allowed = curve.allows(sizes)
    return [
        curve.standing_batch(size) if fits else 0
        for size, fits in zip(sizes.tolist(), allowed.tolist(), strict=True)
    ]


def _batches(learnt: Learnt, size: int, best: int) -> list[int]:
    """Batches to show at a size, ascending, the best among them."""
    if not best:
        return []
    curve = learnt.curve
    if curve.range_of_batches is None:
        return [best]
    least, most = curve.range_of_batches
    even = np.geomspace(least, most, NUM_BATCHES).round().astype(np.int64).tolist()
    wanted = np.array(sorted({*even, curve.global_batch, best}), dtype=np.int64)[:, None]
    possible = open_batches.is_possible(curve, np.array([size], dtype=np.int64), wanted)
    return [int(batch) for batch in wanted[possible]]


def source_of(learnt: Learnt, workers: int, batch: int, num_hosts: int = 1) -> EstimateSource:
    """The weakest of what the estimate needs: the step of a worker, and the all-reduce of all."""
    if has_run(learnt, workers, batch, num_hosts):
        return EstimateSource.RUN
    curve = learnt.curve
    compute = _within(-(-batch // workers), curve.compute_s)
    if num_hosts > 1:
        known = workers in curve.crossing_s.get(num_hosts, {})
        shared = EstimateSource.PARTS if known else EstimateSource.EXTRAPOLATED
        return max(compute, shared, key=_ORDER.index)
    if workers == 1:
        return compute
    is_standing = batch == curve.standing_batch(workers)
    if workers in curve.group_sizes and is_standing:
        return EstimateSource.TRIAL
    sizes = curve.allreduce_s if curve.allreduce_sizes is None else curve.allreduce_sizes
    shared = _within(workers, {1, *sizes, *curve.group_sizes})
    return max(compute, shared, EstimateSource.PARTS, key=_ORDER.index)


#: From the strongest to the weakest.
_ORDER = tuple(EstimateSource)


def has_run(learnt: Learnt, workers: int, batch: int, num_hosts: int) -> bool:
    """Whether the job has run so, long enough that the time of a step is known well."""
    if num_hosts > 1:
        known = learnt.crossing.get(num_hosts, {}).get(workers)
    elif batch == learnt.curve.standing_batch(workers):
        known = learnt.measured.get(workers)
    else:
        known = learnt.at_batch.get(batch, {}).get(workers)
    return known is not None and known.settled_s is not None


def _within(wanted: int, measured: Collection[int]) -> EstimateSource:
    if wanted in measured:
        return EstimateSource.TRIAL
    known = sorted(measured)
    return (
        EstimateSource.INTERPOLATED
        if 0 < bisect_left(known, wanted) < len(known)
        else EstimateSource.EXTRAPOLATED
    )
