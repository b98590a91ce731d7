"""Policies against each other: which is best by each figure, and the differences in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from swell.model.lengths import span
from swell.sim.metrics import Metrics
from swell.sim.report import PolicyResult
from swell.sim.traces.record import plural

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
#: Differences below this share of a time are not put into words.
LEAST_SHARE = 0.01


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


def differences(results: Sequence[PolicyResult]) -> list[str]:
    """The policy that meets most deadlines against each other one, a sentence each. None for one policy."""
    if len(results) < 2:
        return []
    first = max(results, key=lambda result: result.metrics.deadline_satisfaction or 0.0)
    others = [result for result in results if result is not first]
    return [f"{first.policy}, in brackets {other.policy}: {_against(first, other)}." for other in others]


def _against(one: PolicyResult, other: PolicyResult) -> str:
    told = [*_counts(one.metrics, other.metrics), *_times(one.metrics, other.metrics)]
    return ", ".join(told) or "the same in all of these figures"


def _counts(one: Metrics, other: Metrics) -> Iterator[str]:
    """Tell counts, broken promises first: a policy that breaks them cannot make up for that."""
    yield f"{plural(one.admitted_late, 'job')} late though admitted ({other.admitted_late:,})"
    met, met_there = one.deadline_satisfaction, other.deadline_satisfaction
    if met is not None and met_there is not None:
        yield f"{met:.1%} of deadlines met ({met_there:.1%})"
    for name, words in (("rejected", "refused"), ("completed", "completed"), ("resizes", "resizes")):
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine != theirs:
            yield f"{mine:,} {words} ({theirs:,})"


def _times(one: Metrics, other: Metrics) -> Iterator[str]:
    """A mean over other jobs is no difference: where as many completed, they are taken for the same."""
    if one.completed == other.completed:
        yield from _time("a job ends after {} on average", one.avg_jct_s, other.avg_jct_s)
    if one.unfinished == other.unfinished and one.rejected == other.rejected:
        yield from _time("all have ended after {}", one.makespan_s, other.makespan_s)


def _time(words: str, mine_s: float | None, theirs_s: float | None) -> Iterator[str]:
    if not mine_s or not theirs_s:
        return
    share = mine_s / theirs_s - 1.0
    if abs(share) >= LEAST_SHARE:
        order = f"{abs(share):.0%} {'later' if share > 0 else 'sooner'}"
        yield f"{words.format(span(mine_s))}, {order} ({span(theirs_s)})"
