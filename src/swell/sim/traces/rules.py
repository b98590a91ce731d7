"""Rules by which missing values of a trace are filled in."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from swell.model.option import option
from swell.sim.traces.entry import TraceError


def _range(text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    try:
        return float(low), float(high if colon else low)
    except ValueError:
        raise ValueError(f"{text!r} is no range; write LOW:HIGH, as 0.5:1.5") from None


class FillRules(msgspec.Struct, frozen=True, kw_only=True):
    """Each rule applies to what a job does not tell itself; the same seed draws the same.

    A job without model or global batch gets one of the profile set's pairs, each as likely as the others, of
    those measured at the size it asks for. Steps are duration x steps/s at that size, durations steps over
    it. Deadlines are submission + U[tightness] x duration.

    References: ElasticFlow, section 6.1, "Workloads" (models, iterations, deadlines); Hu et al., section 5.4
        (bugs and cancellations).
    """

    seed: Annotated[int, option("N", "Random seed. Default: 0.")] = 0
    deadlines: Annotated[
        Literal["missing", "all", "none"],
        option("WHICH", "Which deadlines to draw at random: missing, all or none. Default: missing."),
    ] = "missing"  #: "none": no job has a deadline
    tightness: Annotated[
        tuple[float, float],
        option(
            "LOW:HIGH",
            "Range of a drawn deadline: submission plus this many times the job's duration. Default: "
            "0.5:1.5.",
            parse=_range,
        ),
    ] = (0.5, 1.5)
    best_effort_share: Annotated[
        float,
        option(
            "SHARE",
            "Share of the jobs without a deadline that stay without one (best_effort). Default: 0.",
            flag="--best-effort",
        ),
    ] = 0.0
    soft_share: Annotated[
        float, option("SHARE", "Share of the deadlines that are soft. Default: 0.", flag="--soft")
    ] = 0.0  #: of the jobs with a deadline whose class the trace leaves open
    elastic_share: float = 1.0  #: the others run on what they ask for
    unknown: Annotated[
        Literal["refuse", "draw", "drop"],
        option(
            "WHAT",
            "Jobs whose model has no profile: refuse the trace, draw another model, or drop the job: refuse, "
            "draw, drop. Default: refuse.",
        ),
    ] = "refuse"
    buggy_share: Annotated[
        float, option("SHARE", "Share of jobs that crash early. Default: 0.", flag="--buggy", is_rare=True)
    ] = 0.0  #: they raise within `buggy_within_s` of training at the size asked for
    buggy_within_s: float = 300.0
    cancelled_share: Annotated[
        float,
        option(
            "SHARE", "Share of jobs that their users cancel. Default: 0.", flag="--cancelled", is_rare=True
        ),
    ] = 0.0  #: at a moment drawn from submission to submission + duration

    def __post_init__(self) -> None:
        """Raises TraceError for a rule that cannot be."""
        for name in ("best_effort_share", "soft_share", "elastic_share", "buggy_share", "cancelled_share"):
            if not 0.0 <= (value := getattr(self, name)) <= 1.0:
                word = name.removesuffix("_share").replace("_", "-")
                raise TraceError(f"--{word} is {value:g}; it must be between 0 and 1")
        if self.buggy_share + self.cancelled_share > 1.0:
            raise TraceError("buggy_share and cancelled_share are more than 1 together")
        low, high = self.tightness
        if not 0.0 < low <= high:
            raise TraceError(f"tightness is {low}:{high}; it must be LOW:HIGH with 0 < LOW <= HIGH")
        if self.seed < 0:
            raise TraceError(f"seed is {self.seed}; it must be >= 0")
