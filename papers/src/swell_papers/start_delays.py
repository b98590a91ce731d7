"""How long starts and growths take on an installation, where a paper assumes a constant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from swell.model.resize import Verdict
from swell.model.view import JobView
from swell_papers.experiment import Context
from swell_papers.findings import Cell, Findings, Part, findings, table
from swell_papers.records import recorded_jobs

#: Resizes whose new gang never trained, or has yet to.
NEVER_DONE = (Verdict.FAILED, Verdict.OVERTAKEN, Verdict.UNDER_WAY)
QUANTILES = (0.1, 0.5, 0.9, 1.0)


@dataclass(frozen=True, kw_only=True)
class StartDelays:
    """Implements `experiment.Experiment`. Without records of a platform it says so.

    Args:
        assumed_s: the paper's delay, of a start and of a growth alike.
    """

    name: str
    title: str
    assumed_s: float
    needs: tuple[str, ...] = ()

    def run(self, context: Context) -> Findings:
        truth, jobs = recorded_jobs(context)
        return findings(self.name, self.title, (truth,), self._parts(jobs))

    def _parts(self, jobs: Iterable[JobView]) -> Iterator[Part]:
        heading: list[str | tuple[str, int]] = ["what", ("paper", 1), "number"]
        heading += [(f"{share:.0%} within", 2) for share in QUANTILES]
        rows = (self._row(what, found) for what, found in delays_s(jobs).items())
        yield table(self.name, "seconds until a decision takes place, as shares of all within", heading, rows)

    def _row(self, what: str, found_s: list[float]) -> tuple[Cell, ...]:
        if not found_s:
            return (what, self.assumed_s, None, *(None for _ in QUANTILES))
        return (what, self.assumed_s, len(found_s), *np.quantile(found_s, QUANTILES).tolist())


def delays_s(jobs: Iterable[JobView]) -> dict[str, list[float]]:
    """What was measured, by what it is of: latest starts, and all growths."""
    found: dict[str, list[float]] = {
        "start": [],
        "growth, during which the old gang trains": [],
    }
    start, growth = found.values()
    for job in jobs:
        start += [job.start_s] if job.start_s is not None else []
        growth += [
            resize.wait_s
            for resize in job.resize_history
            if resize.after > resize.before and resize.verdict not in NEVER_DONE and resize.wait_s is not None
        ]
    return found
