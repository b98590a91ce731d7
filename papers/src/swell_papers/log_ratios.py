"""How many times as many deadlines one policy meets as others do, in print and here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from swell_papers.findings import Cell, Part, table
from swell_papers.log_cases import CHANGED, CaseResult, LogComparison

#: The paper's own policy: the default, and as it is printed.
OURS, AS_PRINTED = "elasticflow", "elasticflow_paper"
#: A ratio that is further from the printed one does not come out.
NEAR_SHARE = 0.1


class _Ratio(NamedTuple):
    """Deadlines met by ElasticFlow over those of one other policy, as means over cases."""

    policy: str
    printed: float
    in_cases: float | None  #: of the printed shares of the same cases
    ours: float | None
    as_printed: float | None

    @property
    def comes_out(self) -> bool:
        return self.ours is None or abs(self.ours / self.printed - 1.0) <= NEAR_SHARE


class _Shares:
    """Shares of deadlines met, by case and policy."""

    def __init__(self, experiment: LogComparison, results: Sequence[CaseResult]) -> None:
        measure = experiment.measures[0]
        self._cases = [case.name for case in experiment.cases]
        self._ours = {(one.case.name, one.line.policy): one.ours(CHANGED, measure) for one in results}
        self._paper = {(one.case.name, one.line.policy): one.line.paper.get(measure.name) for one in results}

    def ratio(self, policy: str, over: str, in_print: bool = False) -> float | None:
        """Mean over the cases that have both; None if there is none."""
        found = self._paper if in_print else self._ours
        pairs = ((found.get((case, policy)), found.get((case, over))) for case in self._cases)
        ratios = [one / other for one, other in pairs if one is not None and other]
        return fmean(ratios) if ratios else None


def ratios(experiment: LogComparison, results: Sequence[CaseResult]) -> Iterator[Part]:
    """A table of the printed ratios beside ours."""
    shares = _Shares(experiment, results)
    found = [
        _Ratio(
            policy,
            printed,
            shares.ratio(OURS, policy, in_print=True),
            shares.ratio(OURS, policy),
            shares.ratio(AS_PRINTED, policy),
        )
        for policy, printed in experiment.ratios.items()
    ]
    if all(one.ours is None for one in found):
        return
    rows: list[tuple[Cell, ...]] = [(*one, "yes" if one.comes_out else "no") for one in found]
    heading = (
        *("over", ("paper's text", 2), ("paper, these cases", 2)),
        *((OURS, 2), (AS_PRINTED, 2), "comes out"),
    )
    title = "how many times as many deadlines ElasticFlow meets, mean over cases, resize cost changed"
    yield table(f"{experiment.name}-ratios", title, heading, rows)
