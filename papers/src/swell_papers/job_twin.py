"""A job that ran live and was simulated, and how far apart its two completion times are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from swell.model.job import Phase
from swell.model.view import JobView
from swell_papers.live_run import LiveJob


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTwin:
    """One job, live and simulated."""

    live: LiveJob
    simulated: JobView

    @property
    def live_s(self) -> float | None:
        """Seconds from submission to end in the live run; None for a job that did not succeed."""
        return completion_s(self.live.view)

    @property
    def simulated_s(self) -> float | None:
        """Seconds from submission to end in the simulation; None for a job that did not succeed."""
        return completion_s(self.simulated)

    @property
    def error_share(self) -> float | None:
        """Error of the simulated time as a share of the live one; > 0 where the simulated one is longer.

        None for a job that did not succeed in both.
        """
        if self.live_s is None or self.simulated_s is None:
            return None
        return self.simulated_s / self.live_s - 1.0


def completion_s(view: JobView) -> float | None:
    """Seconds from submission to end; None for a job that did not succeed."""
    if view.phase is not Phase.SUCCEEDED or view.finished_s is None:
        return None
    return view.finished_s - view.submitted_s


def moved_share(before: Mapping[str, JobView], after: Mapping[str, JobView]) -> float:
    """How far completion times of the same jobs are apart: the mean over those that succeeded in both."""
    times_s = [(completion_s(view), completion_s(after[job_id])) for job_id, view in before.items()]
    shares = [abs(then_s / now_s - 1.0) for now_s, then_s in times_s if now_s and then_s]
    return float(np.mean(shares)) if shares else 0.0
