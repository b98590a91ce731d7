"""Policies on logs, beside what was printed of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.job import AfterRefusal, JobClass, Phase
from swell.sim.conditions import SETTINGS, Conditions
from swell.sim.metrics import Metrics, metrics_of
from swell.sim.outcome import SimOutcome, Usage
from swell.sim.profiles.built_in import load
from swell.sim.profiles.curve import ProfileSet
from swell.sim.traces.entry import Workload
from swell.sim.traces.fill import FillRules, fill
from swell.sim.traces.read import read
from swell_papers.experiment import Claim, Context, Key, Measure, Picture, Results, Study
from swell_papers.findings import Part, Values, chart, table
from swell_papers.variants import simulated_under

HOUR_S = 3600.0
#: Resize costs: those of ElasticFlow's simulator, paid by jobs that change.
CHANGED = "changed"
#: A printed ratio comes out within this share.
NEAR_RATIO = 0.1
OURS = "elasticflow"


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """A policy in a case, and what was printed of it.

    Args:
        printed: its deadline satisfaction.
        printed_speed_up: of its best-effort jobs over Gandiva's.
    """

    policy: str
    printed: float | None = None
    printed_speed_up: float | None = None


@dataclass(frozen=True, kw_only=True)
class LogCase:
    """One log on one cluster; files are named below the data folder."""

    name: str
    trace: str
    profiles: str
    cluster: tuple[int, int]  #: nodes, devices of each
    lines: tuple[LogLine, ...]
    num_jobs: int | None = None  #: the first so many of the log; None: all


class Simulated(NamedTuple):
    """What is kept of a run of ours."""

    metrics: Metrics
    best_effort_s: float | None  #: mean completion time of best-effort jobs
    event_interval_s: float  #: mean time between arrivals and ends of jobs
    #: (H,) of each hour since the first submission: mean `efficiency` and `devices` that jobs hold, jobs that
    #: were `submitted` by its end, and of these those that were `admitted`
    by_hour: Mapping[str, FloatArray | IntArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRun:
    """One line of one case: what was printed of it, and ours."""

    line: LogLine
    workload: Workload
    ours: Simulated | None = None  #: None: the policy was not run
    speed_up: float | None = None  #: completion of best-effort jobs under Gandiva over ours

    def met(self) -> float | None:
        return self.of_metrics(lambda told: told.deadline_satisfaction)

    def event_interval_min(self) -> float | None:
        return self.ours.event_interval_s / 60.0 if self.ours else None

    def of_metrics(self, tell: Callable[[Metrics], float | None]) -> float | None:
        """A figure of ours."""
        return tell(self.ours.metrics) if self.ours else None


#: Deadlines, in print and here.
DEADLINES: tuple[Measure[LogRun], ...] = (
    Measure("paper", lambda run: run.line.printed),
    Measure(CHANGED, LogRun.met),
    Measure("adm", lambda run: run.of_metrics(lambda told: told.admitted), 0),
    Measure("rej", lambda run: run.of_metrics(lambda told: told.rejected), 0),
    Measure("late", lambda run: run.of_metrics(lambda told: told.admitted_late), 0),
)
MAKESPAN: Measure[LogRun] = Measure(
    "makespan, h", lambda run: run.of_metrics(lambda told: told.makespan_s / HOUR_S), 1
)
EFFICIENCY: Measure[LogRun] = Measure(
    "cluster efficiency", lambda run: run.of_metrics(lambda told: told.cluster_efficiency)
)
UTILISATION: Measure[LogRun] = Measure(
    "device time held", lambda run: run.of_metrics(lambda told: told.device_utilization)
)
SPEED_UP: tuple[Measure[LogRun], ...] = (
    Measure("best effort, paper", lambda run: run.line.printed_speed_up, 2),
    Measure("best effort", lambda run: run.speed_up, 2),
)


def log_study(
    name: str,
    title: str,
    cases: Sequence[LogCase],
    more: Sequence[Measure[LogRun]] = (),
    to_reach: Mapping[tuple[str, ...], float] | None = None,
    ratios: Mapping[str, float] | None = None,
    baselines: Sequence[str] = (),
    interval_min: float | None = None,
    case_label: str = "case",
    pictures: Sequence[Picture] = (),
    over_time: Literal["", "efficiency", "devices"] = "",
) -> Study[LogRun]:
    """Policies on logs.

    Args:
        more: measures besides `DEADLINES`.
        to_reach: cases -> the least mean deadline satisfaction of ours, with no promise broken in them.
        ratios: policy -> how many times as many deadlines ElasticFlow meets, in print.
        baselines: of the paper; ours is to meet as many deadlines as the best of them.
        interval_min: printed mean time between scheduling events.
        over_time: what is drawn by the hour.
    """

    def runs(context: Context) -> dict[Key, Callable[[], LogRun]]:
        return {
            (case.name, line.policy): partial(_run, case, line, context)
            for case in cases
            for line in case.lines
        }

    def tell(context: Context, found: Results[LogRun]) -> Iterator[Part]:
        if over_time:
            yield from _over_time(name, title, over_time, found)

    def truth(context: Context, found: Results[LogRun]) -> Iterator[str]:
        settings = ", ".join(f"{setting}={value:g}" for setting, value in SETTINGS.items())
        yield (
            f"resize cost {CHANGED}; noise 0, no node fails, profiles are the truth; seed {context.seed}; "
            f"settings {settings}"
        )
        for case in cases:
            yield _told(case, found[case.name, case.lines[0].policy].workload, context.data)

    return Study(
        name=name,
        title=title,
        cases=runs,
        keys=(case_label, "policy"),
        measures=(*DEADLINES, *more),
        caption="deadline satisfaction, and jobs that were admitted, refused, and late though admitted",
        pictures=pictures,
        claims=tuple(_claims(cases, to_reach or {}, ratios or {}, baselines, interval_min)),
        tell=tell,
        truth=truth,
        needs=tuple(dict.fromkeys(file for case in cases for file in (case.trace, case.profiles))),
    )


def _told(case: LogCase, workload: Workload, data: Path) -> str:
    nodes, devices = case.cluster
    of_file = hashlib.sha256((data / case.trace).read_bytes()).hexdigest()[:12]
    filled = "".join(f"; {line}" for line in workload.filled)
    return (
        f"{case.name}: {case.trace} (sha256 {of_file}), {len(workload.jobs):,} jobs, "
        f"{len(workload.dropped)} left out, on {nodes}x{devices} devices of "
        f"{Path(case.profiles).name}{filled}"
    )


# What is run


def _run(case: LogCase, line: LogLine, context: Context) -> LogRun:
    inputs = (case.trace, case.num_jobs, case.profiles, context.data.resolve(), context.seed)
    ours = _simulated(line.policy, case.cluster, inputs) if context.is_run(line.policy) else None
    speed_up = None
    if ours and (own_s := ours.best_effort_s):
        gandiva_s = _simulated("gandiva", case.cluster, inputs).best_effort_s
        speed_up = gandiva_s / own_s if gandiva_s else None
    _, workload = _inputs(*inputs)
    return LogRun(line=line, workload=workload, ours=ours, speed_up=speed_up)


@cache
def _inputs(
    trace: str, num_jobs: int | None, profiles: str, data: Path, seed: int
) -> tuple[ProfileSet, Workload]:
    """Read once. Raises TraceError."""
    log, known = read(data / trace), load(str(data / profiles))
    some = msgspec.structs.replace(log, jobs=log.jobs[:num_jobs])
    return known, fill(some, known, FillRules(seed=seed))


@cache
def _simulated(
    policy: str, cluster: tuple[int, int], inputs: tuple[str, int | None, str, Path, int]
) -> Simulated:
    """One run, without faults and noise."""
    profiles, workload = _inputs(*inputs)
    nodes, devices = cluster
    conditions = Conditions(
        nodes=nodes,
        devices_per_node=devices,
        resize_cost=CHANGED,
        seed=inputs[-1],
        refused=AfterRefusal.END,  # as ElasticFlow's
    )
    outcome = simulated_under(policy, workload, profiles, conditions)
    metrics, jobs = metrics_of(outcome), list(outcome.jobs)
    times_s = [job.jct_s for job in jobs if job.job_class is JobClass.BEST_EFFORT and job.jct_s is not None]
    kept = [job for job in jobs if job.phase is not Phase.REJECTED]
    moments_s = {*(job.submit_s for job in jobs), *(job.end_s for job in kept if job.end_s is not None)}
    ends_s = np.append(np.arange(HOUR_S, metrics.makespan_s, HOUR_S), metrics.makespan_s)
    return Simulated(
        metrics,
        fmean(times_s) if times_s else None,
        float(np.diff(sorted(moments_s)).mean()) if len(moments_s) > 1 else 0.0,
        {
            "efficiency": efficiency_per_hour(outcome, metrics.makespan_s),
            "devices": _means_per_hour(outcome.usage, outcome.usage.used_devices, metrics.makespan_s),
            "submitted": np.sort([job.submit_s for job in jobs]).searchsorted(ends_s, side="right"),
            "admitted": np.sort([job.submit_s for job in kept]).searchsorted(ends_s, side="right"),
        },
    )


def efficiency_per_hour(outcome: SimOutcome, makespan_s: float) -> FloatArray:
    """(H,) mean cluster efficiency (Equation 8) of each hour; the last one as far as it was needed."""
    return _means_per_hour(outcome.usage, outcome.usage.efficiency, makespan_s) / outcome.num_devices


def _means_per_hour(usage: Usage, values: FloatArray, makespan_s: float) -> FloatArray:
    """(H,) mean over each hour of what is piecewise constant."""
    if makespan_s <= 0.0:
        return np.zeros(0)
    edges_s = np.append(np.arange(0.0, makespan_s, HOUR_S), makespan_s)
    done = np.append(0.0, np.cumsum(values[:-1] * np.diff(usage.at_s)))
    at = np.maximum(np.searchsorted(usage.at_s, edges_s, side="right") - 1, 0)
    so_far = done[at] + values[at] * (edges_s - usage.at_s[at])
    means: FloatArray = np.diff(so_far) / np.diff(edges_s)
    return means


# What is told of it


def _over_time(
    name: str, title: str, what: Literal["efficiency", "devices"], found: Results[LogRun]
) -> Iterator[Part]:
    """Tell cluster efficiency by the hour; or the devices that jobs hold, and jobs submitted and admitted."""
    runs = {str(policy): run.ours for (_, policy), run in found.items() if run.ours}
    label = "cluster efficiency" if what == "efficiency" else "devices that jobs hold"
    yield from _by_hour(name, title, label, {policy: run.by_hour[what] for policy, run in runs.items()})
    refusing = {policy: run.by_hour for policy, run in runs.items() if run.metrics.rejected}
    if what == "devices" and refusing:
        counts = {"submitted": max((hours["submitted"] for hours in refusing.values()), key=len)}
        counts |= {f"admitted by {policy}": hours["admitted"] for policy, hours in refusing.items()}
        yield from _by_hour(f"{name}-jobs", title, "jobs so far", counts)


def _by_hour(
    name: str, title: str, label: str, columns: Mapping[str, FloatArray | IntArray]
) -> Iterator[Part]:
    rows = list(zip_longest(*(column.tolist() for column in columns.values())))
    hours = ((at, *row) for at, row in enumerate(rows))
    yield table(f"{name}-hours", f"{label}, by hour", ("hour", *columns), hours)
    lines: dict[str, Values] = dict(zip(columns, zip(*rows, strict=True), strict=False))
    x = ("hours since the first submission", range(len(rows)))
    yield chart(f"{name}-hours", title, "steps", x, label, lines)


def _claims(
    cases: Sequence[LogCase],
    to_reach: Mapping[tuple[str, ...], float],
    ratios: Mapping[str, float],
    baselines: Sequence[str],
    interval_min: float | None,
) -> Iterator[Claim[LogRun]]:
    names = tuple(case.name for case in cases)

    def mean(
        of: Callable[[LogRun], float | None], policy: str = OURS, some: Sequence[str] = names
    ) -> Callable[[Results[LogRun]], float]:
        return lambda found: fmean(found.mean(of, name, policy) for name in some)

    for some, least in to_reach.items():
        told = f"{OURS} on {', '.join(some)}"
        text, met = f"{told}: deadline satisfaction, resize cost {CHANGED}", mean(LogRun.met, some=some)
        yield Claim(text=text, figure=least, of=met, way=">=", is_target=True)
        late = mean(DEADLINES[-1].of, some=some)
        yield Claim(text=f"{told}: broken promises", figure=0.0, of=late, way="<=", is_target=True)
    lines = {(case.name, line.policy): line for case in cases for line in case.lines}
    printed = {name: one.printed for (name, policy), one in lines.items() if policy == OURS and one.printed}
    if printed:
        met = mean(LogRun.met, some=tuple(printed))
        text = f"{OURS}: deadline satisfaction, mean"
        yield Claim(text=text, figure=fmean(printed.values()), of=met, way=">=")
    if baselines:
        yield Claim(
            text=f"{OURS}: deadline satisfaction, beside the best of {', '.join(baselines)}",
            figure=lambda found: max(mean(LogRun.met, policy)(found) for policy in baselines),
            of=mean(LogRun.met),
            way=">=",
        )
    for policy, ratio in ratios.items():
        text = f"deadlines met by {OURS} over {policy}, mean over cases"
        some = tuple(name for name in names if (name, policy) in lines)
        yield Claim(text=text, figure=ratio, of=partial(_times_as_many, policy, some), within=NEAR_RATIO)
    if interval_min is not None:
        text, between = "minutes between scheduling events, mean over cases", mean(LogRun.event_interval_min)
        yield Claim(text=text, figure=interval_min, of=between)


def _times_as_many(policy: str, cases: Sequence[str], found: Results[LogRun]) -> float:
    """The mean over cases of how many times as many deadlines ours meets."""
    met = [[found.mean(LogRun.met, case, one) for one in (OURS, policy)] for case in cases]
    return fmean(ours / theirs for ours, theirs in met if theirs)
