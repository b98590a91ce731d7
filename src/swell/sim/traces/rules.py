"""Rules by which missing values of a trace are filled in."""

from __future__ import annotations

from typing import Literal

import msgspec

from swell.sim.traces.errors import TraceError


class FillRules(msgspec.Struct, frozen=True, kw_only=True):
    """Each rule applies to what a job does not tell itself; the same seed draws the same.

    A job without model or global batch gets one of the profile set's pairs, each as likely as the others, of
    those measured at the size it asks for. Steps are duration x steps/s at that size, durations steps over
    it. Deadlines are submission + U[tightness] x duration. Loss curves are drawn by `loss_draws`.

    References: ElasticFlow, section 6.1, "Workloads" (models, iterations, deadlines); Hu et al., section 5.4
        (bugs and cancellations).
    """

    seed: int = 0
    deadlines: Literal["missing", "all", "none"] = "missing"  #: draw those; "none": no job has a deadline
    tightness: tuple[float, float] = (0.5, 1.5)
    best_effort_share: float = 0.0  #: of the jobs whose deadline would be drawn
    soft_share: float = 0.0  #: of the jobs with a deadline whose class the trace leaves open
    elastic_share: float = 1.0  #: the others run on what they ask for
    unknown: Literal["refuse", "draw", "drop"] = "refuse"  #: a model or batch the profiles do not have
    buggy_share: float = 0.0  #: raise within `buggy_within_s` of training at the size asked for
    buggy_within_s: float = 300.0
    cancelled_share: float = 0.0  #: given up at a moment drawn from submission to submission + duration
    fates: Literal["ignored", "logged"] = "ignored"  #: "logged": killed jobs are given up when they were
    losses: Literal["given", "drawn"] = "given"  #: "drawn": every job without a loss curve gets one

    def __post_init__(self) -> None:
        """Raises TraceError for a rule that cannot be."""
        for name in ("best_effort_share", "soft_share", "elastic_share", "buggy_share", "cancelled_share"):
            if not 0.0 <= (value := getattr(self, name)) <= 1.0:
                option = name.removesuffix("_share").replace("_", "-")
                raise TraceError(f"--{option} is {value:g}; it must be between 0 and 1")
        if self.buggy_share + self.cancelled_share > 1.0:
            raise TraceError("buggy_share and cancelled_share are more than 1 together")
        low, high = self.tightness
        if not 0.0 < low <= high:
            raise TraceError(f"tightness is {low}:{high}; it must be LOW:HIGH with 0 < LOW <= HIGH")
        if self.seed < 0:
            raise TraceError(f"seed is {self.seed}; it must be >= 0")
