"""What margins that are learnt keep and cost, beside margins that are the same for every estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from swell.scheduler import new_core
from swell.settings import make_settings
from swell.sim.conditions import REPORT_S, SETTINGS, Conditions, set_up
from swell.sim.metrics import metrics_of
from swell.sim.simulate import Scenario, simulate
from swell.throughput.estimate_margins import (
    KEPT_SHARE,
    NUM_BASES,
    NUM_KINDS,
    EstimateMargins,
)
from swell_papers.experiment import Claim, Context, Key, Measure, Paper, Picture, Results, Study
from swell_papers.page_texts import page_texts
from swell_papers.promise_inputs import INPUTS, PHILLY_DAYS, PromiseInput, inputs_of

#: A bar on deadlines met: so much less is as much.
FORGIVEN = 0.003
#: The same margin for every estimate: what margins that are learnt are compared with.
LEARNT, FIXED_MARGINS = "learnt", (0.0, 0.1, 0.3)


class TrueSpeeds(NamedTuple):
    """How speeds differ from estimates.

    Args:
        noise_share: standard deviation of the logarithm of each job's speed at each size.
        most_share: of promises that may be broken.
    """

    name: str
    noise_share: float
    most_share: float


TRUTHS = (
    TrueSpeeds("exact", 0.0, 0.0),
    TrueSpeeds("noise .05", 0.05, 1 / 1000),
    TrueSpeeds("noise .2", 0.2, 1 / 300),
)


class MarginOutcome(NamedTuple):
    """What came of all logs under one truth and one way to choose margins."""

    num_jobs: int
    met: int  #: deadlines
    promised: int
    broken: int  #: promises

    @property
    def met_share(self) -> float:
        return self.met / max(self.num_jobs, 1)

    @property
    def broken_share(self) -> float:
        return self.broken / max(self.promised, 1)


class FixedMargin(EstimateMargins):
    """The same margin, whatever was measured."""

    def __init__(self, margin_share: float, kept_share: float) -> None:
        super().__init__(kept_share)
        self._fixed = np.full(NUM_KINDS * NUM_BASES, margin_share)
        self._fixed.setflags(write=False)

    @property
    def margins(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return self._fixed


#: Of the inputs of `promises`: those of ElasticFlow's testbed, of Philly on 8x8, and all that are
#: made up.
BEGINS = ("6b-", "made-", *(f"philly-{day}-8x8" for day in PHILLY_DAYS))
LOGS = tuple(on for on in INPUTS if on.name.startswith(BEGINS))


def cases(context: Context, logs: Sequence[PromiseInput] = LOGS) -> dict[Key, Callable[[], MarginOutcome]]:
    """Margins that are learnt, and fixed ones."""
    truths = context.chosen({truth.name: truth for truth in TRUTHS}, "truth")
    PAPER.check_files((name for on in logs for name in on.files), context.data)
    return {
        (truth.name, f"{margin}"): partial(outcome, logs, truth, margin, context)
        for truth in truths
        for margin in (LEARNT, *FIXED_MARGINS)
    }


def outcome(
    logs: Sequence[PromiseInput], truth: TrueSpeeds, margin: float | str, context: Context
) -> MarginOutcome:
    """Simulate all logs, and add up what comes of them."""
    counts = np.zeros(4, dtype=np.int64)
    kind = partial(FixedMargin, margin) if isinstance(margin, float) else EstimateMargins
    for scenario in (_scenario(on, truth, context.data, context.seed) for on in logs):
        core = new_core("elasticflow", make_settings(SETTINGS), kind)
        metrics, num_jobs = metrics_of(simulate(core, scenario, with_offers=False)), len(scenario.jobs)
        met = round((metrics.deadline_satisfaction or 0.0) * num_jobs)
        counts += (num_jobs, met, metrics.admitted, metrics.admitted_late)
    return MarginOutcome(*counts.tolist())


def _scenario(on: PromiseInput, truth: TrueSpeeds, data: Path, seed: int) -> Scenario:
    nodes, devices = on.cluster
    conditions = Conditions(
        nodes=nodes, devices_per_node=devices, noise_share=truth.noise_share, seed=seed, report_s=REPORT_S
    )
    profiles, workload = inputs_of(on, data, seed)
    return set_up(workload, profiles, conditions)


Column = Measure[MarginOutcome]
Found = Results[MarginOutcome]


def claims_of(truth: TrueSpeeds) -> Iterator[Claim[MarginOutcome]]:
    """Promises are broken as seldom as the bar says, and no fixed margin that keeps to it meets more."""

    def best(found: Found) -> float:
        fixed = [found[truth.name, f"{margin}"] for margin in FIXED_MARGINS]
        return (
            max((one.met_share for one in fixed if one.broken_share <= truth.most_share), default=0.0)
            - FORGIVEN
        )

    yield Claim(
        text=f"{truth.name}: share of promises broken",
        figure=truth.most_share,
        of=lambda found: found[truth.name, LEARNT].broken_share,
        way="<=",
        is_target=True,
    )
    yield Claim(
        text=f"{truth.name}: share of deadlines met, beside the best fixed margin with as few broken",
        figure=best,
        of=lambda found: found[truth.name, LEARNT].met_share,
        way=">=",
        is_target=True,
    )


def _truth(context: Context, found: Found) -> Iterator[str]:
    settings = ", ".join(f"{name}={value:g}" for name, value in SETTINGS.items())
    quantile = f"estimate_quantile={KEPT_SHARE:g}"
    yield f"resize cost changed; no node fails; gangs report; seed {context.seed}; {quantile}, {settings}"
    yield from (f"{on.name}: {on.title}" for on in LOGS)


PAPER = Paper(
    name="margins",
    title="Promises where estimates are wrong",
    inputs="they are traces and throughput tables of ElasticFlow's public artifact, as "
    "elasticflow/traces/*.csv[.gz] and elasticflow/throughputs_A100/MODEL.csv, and Philly's log, as "
    "philly/philly.csv.gz",
    introduction=page_texts("margins").introduction,
    experiments=(
        Study(
            name="margins",
            title="Learnt margins and fixed ones",
            cases=cases,
            keys=("truth", "margin"),
            measures=(
                Column("jobs", lambda one: one.num_jobs, 0),
                Column("met", lambda one: one.met_share, 4),
                Column("promised", lambda one: one.promised, 0),
                Column("broken", lambda one: one.broken, 0),
            ),
            caption="all logs together",
            pictures=(
                Picture(measures=("met",), x="margin", lines="truth", kind="lines", y_label="deadlines met"),
            ),
            claims=[claim for truth in TRUTHS for claim in claims_of(truth)],
            truth=_truth,
        ),
    ),
)
