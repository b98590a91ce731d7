"""What the estimate of a step's time was made from, by workers and batch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection

from swell.model.throughput import EstimateSource
from swell.throughput.learnt import Learnt


def source_of(learnt: Learnt, workers: int, batch: int, num_hosts: int = 1) -> EstimateSource:
    """The weakest of what the estimate needs: the step of a worker, and the all-reduce of all."""
    if has_run(learnt, workers, batch, num_hosts):
        return EstimateSource.RUN
    curve = learnt.curve
    compute = _within(-(-batch // workers), curve.compute_s)
    if num_hosts > 1:
        known = workers in curve.crossing_s.get(num_hosts, {})
        return compute if known and compute is not EstimateSource.TRIAL else _parts(compute, known)
    if workers == 1:
        return compute
    is_standing = batch == curve.standing_batch(workers)
    if workers in curve.group_sizes and is_standing:
        return EstimateSource.TRIAL
    sizes = curve.allreduce_s if curve.allreduce_sizes is None else curve.allreduce_sizes
    shared = _within(workers, {1, *sizes, *curve.group_sizes})
    return max(compute, shared, EstimateSource.PARTS, key=_ORDER.index)


_ORDER = (
    EstimateSource.RUN,
    EstimateSource.TRIAL,
    EstimateSource.PARTS,
    EstimateSource.INTERPOLATED,
    EstimateSource.EXTRAPOLATED,
)


def has_run(learnt: Learnt, workers: int, batch: int, num_hosts: int) -> bool:
    """Whether the job has run so, long enough that the time of a step is known well."""
    if num_hosts > 1:
        known = learnt.crossing.get(num_hosts, {}).get(workers)
    elif batch == learnt.curve.standing_batch(workers):
        known = learnt.measured.get(workers)
    else:
        known = learnt.at_batch.get(batch, {}).get(workers)
    return known is not None and known.settled_s is not None


def _parts(compute: EstimateSource, is_crossing_known: bool) -> EstimateSource:
    return (
        max(compute, EstimateSource.PARTS, key=_ORDER.index)
        if is_crossing_known
        else EstimateSource.EXTRAPOLATED
    )


def _within(wanted: int, measured: Collection[int]) -> EstimateSource:
    if wanted in measured:
        return EstimateSource.TRIAL
    known = sorted(measured)
    return (
        EstimateSource.INTERPOLATED
        if 0 < bisect_left(known, wanted) < len(known)
        else EstimateSource.EXTRAPOLATED
    )
