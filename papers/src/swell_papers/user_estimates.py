"""How wrong users' estimates are on an installation, where a paper assumes uniform errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from swell.model.view import JobView
from swell_papers.experiment import Context
from swell_papers.findings import Cell, Findings, Part, findings, table
from swell_papers.records import recorded_jobs

#: Shares of the measured time: errors of up to each are counted.
ERRORS = (0.05, 0.1, 0.25, 0.5, 1.0)


@dataclass(frozen=True, kw_only=True)
class UserEstimates:
    """Implements `experiment.Experiment`. Without records of a platform it says so.

    Args:
        assumed_share: errors are uniform up to this share, in the paper.
    """

    name: str
    title: str
    assumed_share: float
    needs: tuple[str, ...] = ()

    def run(self, context: Context) -> Findings:
        truth, jobs = recorded_jobs(context)
        return findings(self.name, self.title, (truth,), self._parts(jobs))

    def _parts(self, jobs: Iterable[JobView]) -> Iterator[Part]:
        heading: list[str | tuple[str, int]] = ["estimates", "jobs", ("median error, %", 1)]
        heading += [(f"within {share:.0%}", 2) for share in ERRORS]
        paper: list[Cell] = [min(1.0, share / self.assumed_share) for share in ERRORS]
        rows: list[tuple[Cell, ...]] = [("paper, uniform", None, 0.0, *paper)]
        for kind, found in errors_of(jobs).items():
            if not found:
                rows.append((kind, None, None, *(None for _ in ERRORS)))
                continue
            within = [float(np.mean(np.abs(found) <= share)) for share in ERRORS]
            rows.append((kind, len(found), 100.0 * float(np.median(found)), *within))
        yield table(self.name, "shares of jobs whose estimate is wrong by no more", heading, rows)


def errors_of(jobs: Iterable[JobView]) -> dict[str, list[float]]:
    """Estimate over measured time, less 1, by the kind of the job."""
    found: dict[str, list[float]] = {"live": [], "restart": []}
    for job in jobs:
        if job.estimate_s is not None and job.alone_s:
            found[str(job.elasticity)].append(job.estimate_s / job.alone_s - 1.0)
    return found
