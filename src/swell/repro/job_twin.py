"""A job that ran live and was simulated, and how far apart its two completion times are."""

from __future__ import annotations

from dataclasses import dataclass

from swell.model.job import Phase
from swell.model.view import JobView
from swell.repro.live_run import LiveJob


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTwin:
    """One job, live and simulated."""

    live: LiveJob
    simulated: JobView

    @property
    def live_s(self) -> float | None:
        """From submission to end; None for a job that did not succeed."""
        return completion_s(self.live.view)

    @property
    def simulated_s(self) -> float | None:
        """From submission to end; None for a job that did not succeed."""
        return completion_s(self.simulated)

    @property
    def error_share(self) -> float | None:
        """Of the live time, > 0 where the simulated one is longer."""
        if self.live_s is None or self.simulated_s is None:
            return None
        return self.simulated_s / self.live_s - 1.0


def completion_s(view: JobView) -> float | None:
    """From submission to end; None for a job that did not succeed."""
    if view.phase is not Phase.SUCCEEDED or view.finished_s is None:
        return None
    return view.finished_s - view.submitted_s
