"""What an experiment that runs policies on logs declares, and what one of its runs brings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from swell.arrays import FloatArray, IntArray
from swell.sim.conditions import Conditions
from swell.sim.metrics import Metrics
from swell.sim.traces.workload import Workload
from swell_papers.measures import Measure, with_deadline
from swell_papers.published import Run

#: Resize costs: the honest one, and how the published simulator charges the same amounts.
CHANGED, EVERYONE = "changed", "everyone"


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePolicy:
    """A policy in a case, and what was published of it.

    Args:
        policy: ours of this name is run.
        paper: measure -> figure that the paper prints.
        run: per-job outcomes of the published simulator, below the data folder.
        slot_s: leeway of its own count.
        counts: (own, strict) number of jobs in time of a published run whose outcomes are not at hand.
    """

    policy: str
    paper: Mapping[str, float] = field(default_factory=dict)
    run: str | None = None
    slot_s: float = 0.0
    counts: tuple[int, int] | None = None

    @property
    def is_compared(self) -> bool:
        """Whether there is a published run to compare with."""
        return self.run is not None or self.counts is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One log on one cluster; files are named below the data folder."""

    name: str
    trace: str
    profiles: str
    cluster: tuple[int, int]  #: nodes, devices of each
    lines: tuple[CasePolicy, ...]
    num_jobs: int | None = None  #: the first so many of the log; None: all


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The mean of the first measure over these cases is to be at least this, and no promise is to break."""

    policy: str
    cases: tuple[str, ...]
    at_least: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What is kept of a run of ours. A dict's keys are measures' names."""

    metrics: Metrics
    values: Mapping[str, float | None]
    in_time: frozenset[str]
    late: tuple[tuple[float, int], ...]  #: of each job that ended late: by how many seconds, its resizes
    efficiency_per_hour: FloatArray  #: (H,) mean of each hour since the first submission
    devices_per_hour: FloatArray  #: (H,) likewise, of the devices that jobs hold
    submitted_by_hour: IntArray  #: (H,) jobs that were submitted by the end of each hour
    admitted_by_hour: IntArray  #: (H,) of these, those that were not refused
    event_interval_s: float  #: mean time between arrivals and ends of jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One line of one case."""

    case: Case
    line: CasePolicy
    workload: Workload
    runs: Mapping[str, Simulated]  #: by resize cost
    published: Run | None  #: None also where its file is missing

    def ours(self, cost: str, measure: Measure) -> float | None:
        """Measure of our run with this resize cost; None if it was not run."""
        run = self.runs.get(cost)
        return None if run is None else run.values[measure.name]

    def count(self, cost: str, name: str) -> int | None:
        """A field of the metrics."""
        run = self.runs.get(cost)
        value: int | None = None if run is None else getattr(run.metrics, name)
        return value

    def theirs(self, measure: Measure, is_strict: bool) -> float | None:
        """The published simulator's, by its own count or strictly."""
        if self.published is not None:
            leeway_s = 0.0 if is_strict else self.line.slot_s
            return measure.of_run(self.published, self.workload, leeway_s)
        if self.line.counts is None or not measure.is_share:
            return None
        return self.line.counts[is_strict] / len(with_deadline(self.workload))

    def points(self, measure: Measure) -> float | None:
        """Points by which our figure exceeds the published simulator's under its own resize costs.

        Both are counted strictly. None if one of them is not known.
        """
        ours, theirs = self.ours(EVERYONE, measure), self.theirs(measure, is_strict=True)
        return None if ours is None or theirs is None else 100.0 * (ours - theirs)


@dataclass(frozen=True, kw_only=True)
class LogComparison:
    """Policies on logs, beside what was published of them.

    Where something was published to compare with run by run, a policy runs with both resize costs, else
    with the honest one alone.

    Args:
        measures: the first is what `bars` are about.
        why: policy -> why it differs from the published simulator by more than rounding.
        picture: a panel a case with its policies; the paper's and our policies over the cases; or cluster
            efficiency, or the devices that jobs hold and the jobs admitted, over time.
        not_public: case -> policy -> printed figure, of logs that were not published.
        ratios: policy -> how many times as many deadlines ElasticFlow meets, as the paper's text prints it.
        interval_min: printed mean time between scheduling events.
        case_label: what the names of the cases are, below the x axis.
    """

    name: str
    title: str
    cases: tuple[Case, ...]
    measures: tuple[Measure, ...]
    remarks: tuple[str, ...] = ()
    bars: tuple[Bar, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    not_public: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    ratios: Mapping[str, float] = field(default_factory=dict)
    interval_min: float | None = None
    picture: Literal["policies", "cases", "lines", "time", "allocation"] = "policies"
    case_label: str = "case"

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """Files below the data folder, without duplicates."""
        return tuple(dict.fromkeys(name for case in self.cases for name in (case.trace, case.profiles)))


def conditions(case: Case, resize_cost: str, seed: int) -> Conditions:
    """Conditions of a case: no faults and no noise."""
    nodes, devices = case.cluster
    return Conditions(nodes=nodes, devices_per_node=devices, resize_cost=resize_cost, seed=seed)
