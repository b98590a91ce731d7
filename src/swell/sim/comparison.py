"""Which policy is best by each figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from swell.sim.metrics import Metrics
from swell.sim.report import PolicyResult

Figure = Callable[[Metrics], float | None]

#: By heading of the table: a figure of which more (+1) or less (-1) is better. Of the others neither is: who
#: admits more may keep less, and a resize is a means.
BETTER: Mapping[str, tuple[int, Figure]] = {
    "MET": (+1, lambda metrics: metrics.deadline_satisfaction),
    "MET H": (+1, lambda metrics: metrics.met_device_h),
    "LATE": (-1, lambda metrics: metrics.admitted_late),
    "DONE": (+1, lambda metrics: metrics.completed),
    "AVG JCT": (-1, lambda metrics: metrics.avg_jct_s),
    "P99 JCT": (-1, lambda metrics: metrics.p99_jct_s),
    "MAKESPAN": (-1, lambda metrics: metrics.makespan_s if metrics.completed else None),
    "QUEUE": (-1, lambda metrics: metrics.avg_queue_s),
    "EFF": (+1, lambda metrics: metrics.cluster_efficiency),
}


def best_policies(results: Sequence[PolicyResult]) -> dict[str, frozenset[str]]:
    """Return the policies with the best figure of each heading.

    The set is empty where all are equal, or there is only one policy.
    """
    return {heading: frozenset(_best(results, sign, figure)) for heading, (sign, figure) in BETTER.items()}


def _best(results: Sequence[PolicyResult], sign: int, figure: Figure) -> Iterator[str]:
    values = {result.policy: figure(result.metrics) for result in results}
    known = [sign * value for value in values.values() if value is not None]
    if len(set(known)) < 2:
        return
    yield from (
        policy for policy, value in values.items() if value is not None and sign * value == max(known)
    )
