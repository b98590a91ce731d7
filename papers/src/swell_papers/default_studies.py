"""The policy `unified` beside each paper's policy on the measure of that paper, and bars to be reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from swell.model.errors import InvalidInput
from swell.sim.conditions import SETTINGS, Conditions, set_up
from swell.sim.metrics import Metrics, metrics_of
from swell.sim.pool import HOUR_S
from swell.sim.profiles.load import load
from swell.sim.profiles.profile_set import ProfileSet
from swell.sim.simulate import simulate
from swell.sim.traces.arrivals import Poisson
from swell.sim.traces.fill import fill
from swell.sim.traces.generate import Demand, generate
from swell.sim.traces.read import read
from swell.sim.traces.rules import FillRules
from swell.sim.traces.workload import Workload
from swell_papers.bftrainer_checkpoints import SPAN_S
from swell_papers.bftrainer_inputs import ALL_INPUTS, DIVERSE, read_log, read_some_names, read_trainers
from swell_papers.bftrainer_runs import FROM_S, OPTIMISER, USUAL_FORWARD_S
from swell_papers.bftrainer_simulated import SimulatedImages, simulated
from swell_papers.experiment import Context, Study
from swell_papers.findings import Cell, Findings, Missed, Part, chart, findings, panel, table
from swell_papers.hu_runs import Allocator, AllocatorRun, HuCase, measured
from swell_papers.intervals import Interval
from swell_papers.promise_inputs import rate_per_s
from swell_papers.saxena_cases import SaxenaCase, SaxenaLine, SaxenaRun, run_once
from swell_papers.saxena_workload import MINUTE_S, Pattern
from swell_papers.variants import variant_core

#: The policy that is judged, and the default before it.
UNIFIED, DEFAULT = "unified", "elasticflow"
#: With its default objective `unified` may be so much behind a paper's policy on the measure of that paper.
LEEWAY_SHARE = 0.03
#: Rounding of what should be equal.
FORGIVEN_SHARE = 1e-9
#: Columns of a page's table of bars, which the summary reads again by name.
HEADING = (
    *("measure", "the paper's policy", "its value", DEFAULT, UNIFIED),
    *("best of all", "its best value", "to reach", "reached"),
)
#: What the names of tables of bars end with.
BARS = "-bars"


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultBar:
    """One measure of several policies.

    Args:
        values: by label of a policy.
        paper: label of the policy of the paper whose measure this is; empty: the measure is of no paper.
        is_most: more of it is better; otherwise less.
        limit: that is to be reached.
        ours: label of the variant of `unified` that is judged.
    """

    measure: str
    values: Mapping[str, float]
    limit: float
    paper: str = ""
    is_most: bool = False
    ours: str = UNIFIED

    @property
    def value(self) -> float:
        return self.values[self.ours]

    @property
    def is_reached(self) -> bool:
        forgiven = FORGIVEN_SHARE * abs(self.limit)
        if self.is_most:
            return self.value >= self.limit - forgiven
        return self.value <= self.limit + forgiven

    @property
    def told_limit(self) -> str:
        return f"{'>=' if self.is_most else '<='} {self.limit:,.3f}"

    @property
    def told(self) -> str:
        """The bar that was missed, in a sentence."""
        return f"{self.measure}: {self.ours} {self.value:,.3f}; to reach: {self.told_limit}"

    @property
    def row(self) -> tuple[Cell, ...]:
        """The cells of a table of bars."""
        best = best_label(self.values, self.is_most)
        paper = (self.paper, self.values[self.paper]) if self.paper else (None, None)
        verdict = (self.told_limit, "yes" if self.is_reached else "no")
        return (self.measure, *paper, self.values[DEFAULT], self.value, best, self.values[best], *verdict)


def best_label(values: Mapping[str, float], is_most: bool) -> str:
    """The first of the policies with the best value."""
    best = max(values.values()) if is_most else min(values.values())
    return next(label for label, value in values.items() if value == best)


def beside_paper(
    measure: str, values: Mapping[str, float], paper: str, is_most: bool = False, named: str = ""
) -> Iterator[DefaultBar]:
    """The bars of a paper's measure: near its policy, and at it where that paper's objective is named.

    Args:
        named: label of `unified` with the objective of the paper; empty: the paper has none of its own.
    """
    sign = -1.0 if is_most else 1.0
    limit = (1.0 + sign * LEEWAY_SHARE) * values[paper]
    yield DefaultBar(measure=measure, values=values, limit=limit, paper=paper, is_most=is_most)
    if named:
        told = f"{measure}, {named.removeprefix(f'{UNIFIED}, ')}"
        yield DefaultBar(
            measure=told, values=values, limit=values[paper], paper=paper, is_most=is_most, ours=named
        )


def told_bars(name: str, bars: Sequence[DefaultBar]) -> Iterator[Part]:
    """The table of these bars, and a sentence for each that was missed."""
    yield table(f"{name}{BARS}", "bars", HEADING, (bar.row for bar in bars))
    yield from (Missed(bar.told) for bar in bars if not bar.is_reached)


def summary(all_findings: Sequence[Findings]) -> Findings:
    """All bars of a page in one table, and how many were reached."""
    tables = [one for found in all_findings for one in found.tables if one.name.endswith(BARS)]
    rows = [row for one in tables for row in one.rows]
    told = f"{sum(row[-1] == 'yes' for row in rows)} of {len(rows)} bars are reached."
    title = f"measures of the papers and of a mixed queue under {UNIFIED}, {DEFAULT} and the paper's policy"
    parts: tuple[Part, ...] = (table("summary", title, HEADING, rows), told)
    return findings("summary", "What is measured", (), parts)


RunT = TypeVar("RunT")


class RunColumn(NamedTuple, Generic[RunT]):
    """A figure of a run: a column of the table, and a bar where it has a measure.

    Args:
        measure: what the bar calls it; empty: it is only told.
        half: also half of the 95 % interval over seeds.
    """

    name: str
    of: Callable[[RunT], float]
    digits: int = 1
    measure: str = ""
    is_most: bool = False
    half: bool = False


@dataclass(frozen=True, kw_only=True)
class PolicyComparison(Generic[RunT]):
    """Policies on the inputs of one paper: `of` makes the study.

    Args:
        heading: what the cells of a case are.
        cases: cells of each, and what `run` takes as the case; asked for when it is run.
        run: takes the context, the case, a label of `lines`, and the seed.
        paper: label of the paper's own policy; `named` that of ours with the paper's objective.
    """

    name: str
    title: str
    truth: str
    heading: tuple[str, ...]
    cases: Callable[[], Sequence[tuple[tuple[str | int, ...], Any]]]
    lines: Sequence[str]
    run: Callable[[Context, Any, str, int], RunT]
    columns: Sequence[RunColumn[RunT]]
    table_title: str
    paper: str
    named: str = ""
    about: str = ""  #: of a case's cells: how its measures begin
    num_seeds: Callable[[], int] = lambda: 0
    needs: tuple[str, ...] = ()

    @property
    def study(self) -> Study[tuple[int, str, int], RunT]:
        """What runs it."""
        return Study(
            name=self.name,
            title=self.title,
            cases=self._cases,
            tell=self._tell,
            truth=self.truth,
            needs=self.needs,
            num_seeds=self.num_seeds(),
        )

    def _cases(self, context: Context) -> dict[tuple[int, str, int], Callable[[], RunT]]:
        seeds = context.seeds(self.num_seeds()) or range(context.seed, context.seed + 1)
        return {
            (at, line, seed): partial(self.run, context, case, line, seed)
            for at, (_, case) in enumerate(self.cases())
            for line in self.lines
            for seed in seeds
        }

    def _tell(self, context: Context, found: Mapping[tuple[int, str, int], RunT]) -> Iterator[Part]:
        of: dict[tuple[int, str], list[RunT]] = {}
        for (at, line, _), run in found.items():
            of.setdefault((at, line), []).append(run)
        bars = [bar for at, (cells, _) in enumerate(self.cases()) for bar in self._bars(at, cells, of)]
        yield from told_bars(self.name, bars)
        heading: list[str | tuple[str, int]] = [*self.heading, "policy"]
        for column in self.columns:
            heading += [(column.name, column.digits), *([(f"{column.name} +-", column.digits)] * column.half)]
        yield table(self.name, self.table_title, heading, self._rows(of))

    def _bars(
        self, at: int, cells: tuple[str | int, ...], of: Mapping[tuple[int, str], Sequence[RunT]]
    ) -> Iterator[DefaultBar]:
        for column in self.columns:
            if column.measure:
                values = {line: _interval(column, of[at, line]).mean for line in self.lines}
                measure = f"{self.about.format(*cells)}: {column.measure}"
                yield from beside_paper(measure, values, self.paper, column.is_most, self.named)

    def _rows(self, of: Mapping[tuple[int, str], Sequence[RunT]]) -> Iterator[tuple[Cell, ...]]:
        cells = [cells for cells, _ in self.cases()]
        for (at, line), runs in of.items():
            row: list[Cell] = [*cells[at][: len(self.heading)], line]
            for column in self.columns:
                row += _interval(column, runs)[: 1 + column.half]
            yield tuple(row)


def _interval(column: RunColumn[RunT], runs: Sequence[RunT]) -> Interval:
    return Interval.of([column.of(run) for run in runs])


NUM_SEEDS = 5
BY_THROUGHPUT, BY_SAMPLES, BY_QUEUEING = (
    f"{UNIFIED}, gains_by={gain}" for gain in ("throughput", "samples", "queueing")
)

# Pollux: completion times of its workloads without deadlines

PROFILES, WORKLOADS = "pollux/profiles", "pollux/workloads/workload-{}.csv"
#: Workloads that were looked at while the policy was written, and those that were only judged.
LOOKED_AT, JUDGED = (1, 2, 6), (3, 4, 5, 7, 8)
#: Nodes, devices of each.
CLUSTERS = ((16, 4), (4, 4))
PAPER_POLICY = "pollux"
POLICIES = (UNIFIED, "elasticflow", PAPER_POLICY, "saxena", "srtf")

#: Workload, nodes and devices of each, policy.
Run = tuple[int, tuple[int, int], str]


class Completion(NamedTuple):
    """Seconds from submission to end."""

    mean_s: float
    p99_s: float


def _pollux_cases(context: Context) -> dict[Run, Callable[[], Completion]]:
    numbers = sorted((*LOOKED_AT, *JUDGED))
    runs = [(number, cluster, policy) for cluster in CLUSTERS for number in numbers for policy in POLICIES]
    return {run: partial(completion, context, *run) for run in runs}


def _pollux(context: Context, found: Mapping[Run, Completion]) -> Iterator[Part]:
    means_s = partial(_means_s, found)
    bars = [
        bar
        for cluster in CLUSTERS
        for told, numbers in (("judged only", JUDGED), ("looked at", LOOKED_AT))
        for bar in beside_paper(
            f"Pollux's workloads {', '.join(map(str, numbers))} ({told}), {cluster[0]}x{cluster[1]}: mean "
            "completion, s",
            means_s(numbers, cluster),
            PAPER_POLICY,
        )
    ]
    yield from told_bars("pollux", bars)
    columns = [(f"{told}, {policy}", 0) for told in ("mean", "p99") for policy in POLICIES]
    rows: list[tuple[Cell, ...]] = []
    for number, cluster in dict.fromkeys(run[:2] for run in found):
        bar, *_ = beside_paper(_of(number, cluster), means_s((number,), cluster), PAPER_POLICY)
        if not bar.is_reached:
            yield Missed(f"mean completion, s, {bar.told}")
        some = [found[number, cluster, policy] for policy in POLICIES]
        first = (f"{cluster[0]}x{cluster[1]}", number, "looked at" if number in LOOKED_AT else "judged only")
        rows.append((*first, *(one.mean_s for one in some), *(one.p99_s for one in some)))
    title = "completion in seconds, from submission to end, and whether the workload was looked at before"
    yield table("pollux", title, ("cluster", "workload", "input", *columns), rows)
    numbers = sorted((*LOOKED_AT, *JUDGED))
    panels = (
        panel(
            f"{cluster[0]}x{cluster[1]}",
            {policy: [found[number, cluster, policy].mean_s for number in numbers] for policy in POLICIES},
        )
        for cluster in CLUSTERS
    )
    workloads, title = ("Pollux's workload", map(str, numbers)), "Mean completion of Pollux's workloads"
    yield chart("pollux", f"{title} without deadlines", "bars", workloads, "seconds", panels)


def _of(number: int, cluster: tuple[int, int]) -> str:
    return f"workload {number} on {cluster[0]}x{cluster[1]}"


def _means_s(
    found: Mapping[Run, Completion], numbers: Sequence[int], cluster: tuple[int, int]
) -> dict[str, float]:
    return {
        policy: float(np.mean([found[number, cluster, policy].mean_s for number in numbers]))
        for policy in POLICIES
    }


def completion(context: Context, number: int, cluster: tuple[int, int], policy: str) -> Completion:
    """Run one policy on one workload."""
    profiles = pollux_profiles(context.data)
    nodes, devices = cluster
    conditions = Conditions(nodes=nodes, devices_per_node=devices, seed=context.seed)
    scenario = set_up(_workload(context.data, number, context.seed), profiles, conditions)
    metrics = metrics_of(simulate(variant_core(policy, SETTINGS), scenario, with_offers=False))
    mean_s, p99_s = metrics.avg_jct_s, metrics.p99_jct_s
    if mean_s is None or p99_s is None:
        raise InvalidInput(f"no job of {_of(number, cluster)} ends under {policy}: nothing to compare")
    return Completion(mean_s, p99_s)


@cache
def pollux_profiles(data: Path) -> ProfileSet:
    return load(str(data / PROFILES))


@cache
def _workload(data: Path, number: int, seed: int) -> Workload:
    trace = read(data / WORKLOADS.format(number))
    return fill(trace, pollux_profiles(data), FillRules(seed=seed, deadlines="none"))


POLLUX = Study(
    name="pollux",
    title="Pollux's workloads without deadlines",
    cases=_pollux_cases,
    tell=_pollux,
    truth="Pollux's measurements are the truth; 160 jobs a workload; resize cost changed, noise 0",
    needs=(PROFILES, *(WORKLOADS.format(number) for number in sorted((*LOOKED_AT, *JUDGED)))),
)

# Saxena et al.

LOADS = (0.75, 1.0, 3.0)
SAXENA = "saxena"
SAXENA_LINES = (
    SaxenaLine(label=SAXENA, policy=SAXENA, drops=False),
    *(SaxenaLine(label=name, policy=name, drops=None) for name in ("pollux", DEFAULT, "srtf", UNIFIED)),
    SaxenaLine(label=BY_THROUGHPUT, policy=UNIFIED, drops=None, parameters={"gains_by": "throughput"}),
)
SAXENA_CASES = tuple(
    SaxenaCase(
        name=f"{load:g}",
        pattern=Pattern(name=f"load {load:g}", minutes=240.0, high=load),
        num_devices=40,
        categories=(0, 1, 2, 3),
        lines=SAXENA_LINES,
        num_seeds=NUM_SEEDS,
    )
    for load in LOADS
)


def _saxena(context: Context, case: SaxenaCase, label: str, seed: int) -> SaxenaRun:
    return run_once(case, next(line for line in case.lines if line.label == label), seed)


SAXENA_QUEUE = PolicyComparison(
    name="saxena",
    title="Saxena et al.: a queue on 40 devices",
    truth="the scaling model of Saxena et al. is the truth; all four categories; 240 min of arrivals; jobs "
    "queue; changes are free, noise 0",
    heading=("load",),
    cases=lambda: [((case.name,), case) for case in SAXENA_CASES],
    lines=[line.label for line in SAXENA_LINES],
    run=_saxena,
    columns=(
        RunColumn("jobs", lambda run: run.metrics.jobs, 0),
        RunColumn("completed", lambda run: run.metrics.completed, 0),
        RunColumn(
            "mean completion",
            lambda run: (run.metrics.avg_jct_s or 0.0) / MINUTE_S,
            measure="mean completion, min",
            half=True,
        ),
        RunColumn("p99 completion", lambda run: (run.metrics.p99_jct_s or 0.0) / MINUTE_S),
        RunColumn("makespan", lambda run: run.metrics.makespan_s / MINUTE_S, measure="makespan, min"),
        RunColumn("resizes", lambda run: run.metrics.resizes, 0),
    ),
    table_title="means over seeds in minutes; +-: half of the 95 % interval",
    paper=SAXENA,
    named=BY_THROUGHPUT,
    about="Saxena et al., load {0}",
    num_seeds=lambda: NUM_SEEDS,
).study

# BFTrainer

NUM_TRAINERS = (10, 60)
#: Seconds between checkpoints, None where the platform chooses, and how a measure tells it.
INTERVALS_S: Mapping[float | None, str] = {
    1.0: "a checkpoint each second",
    1_800.0: "one each 30 min",
    None: "chosen intervals",
}
#: That a checkpoint takes where intervals are chosen. With fixed ones it takes no time.
SAVE_S = 2.0
BORROWED_POLICIES = (OPTIMISER, DEFAULT, UNIFIED, BY_SAMPLES)


def _images(context: Context, case: tuple[int, float | None], label: str, seed: int) -> SimulatedImages:
    num, each_s = case
    pool = read_log(context.data).of_nodes(read_some_names(context.data))
    trainers = read_trainers(context.data, DIVERSE)[:num]
    policy, parameters = _of_label(label, num)
    save_s = SAVE_S if each_s is None else 0.0
    return simulated(pool, trainers, policy, parameters, each_s, FROM_S, FROM_S + SPAN_S, save_s)


def _of_label(label: str, num: int) -> tuple[str, Mapping[str, float | str]]:
    if label == OPTIMISER:
        return label, {"t_fwd_s": USUAL_FORWARD_S, "max_trainers": float(num)}
    return (UNIFIED, {"gains_by": "samples"}) if label == BY_SAMPLES else (label, {})


BORROWED = PolicyComparison(
    name="borrowed",
    title="BFTrainer: trainers on idle nodes",
    truth=f"{SPAN_S / HOUR_S:.0f} h of Summit's idle nodes from {FROM_S:,.0f} s of the log on, its first 150 "
    "nodes; the first trainers of the list of diverse ones; changes cost what the list says; a checkpoint "
    f"takes {SAVE_S:g} s where intervals are chosen, else no time; bftrainer takes all trainers at one time, "
    f"t_fwd_s={USUAL_FORWARD_S:g}",
    heading=("trainers", "checkpoints"),
    cases=lambda: [
        ((num, told), (num, each_s)) for num in NUM_TRAINERS for each_s, told in INTERVALS_S.items()
    ],
    lines=BORROWED_POLICIES,
    run=_images,
    columns=(
        RunColumn(
            "images, billion", lambda run: run.images / 1e9, 3, measure="images, billion", is_most=True
        ),
        RunColumn("done", lambda run: run.num_ended, 0),
        RunColumn("lost, device-hours", lambda run: run.waste.unsaved_device_s / HOUR_S, 3),
        RunColumn("turns", lambda run: run.num_turns, 0),
    ),
    table_title="images of all trainers; lost: training that a lost gang had not saved",
    paper=OPTIMISER,
    named=BY_SAMPLES,
    about="BFTrainer, {0} trainers, {1}",
    needs=ALL_INPUTS,
).study

# Hu et al.

HU = "hu"
HU_POLICIES = (
    *(Allocator(policy=name) for name in (HU, DEFAULT, "equal_share", UNIFIED)),
    Allocator(policy=UNIFIED, parameters=(("gains_by", "queueing"),), label=BY_QUEUEING),
)
HU_CASE = HuCase(nodes=110)


def _hu(context: Context, case: HuCase, label: str, seed: int) -> AllocatorRun:
    return measured(next(one for one in HU_POLICIES if one.name == label), case, seed)


HU_JOBS = PolicyComparison(
    name="hu",
    title=f"Hu et al.: {HU_CASE.nodes} nodes",
    truth="the 447 generated jobs of 5 min or more; resizes are free, noise 0; hu decides every 5 min, the "
    "others at each arrival and end",
    heading=(),
    cases=lambda: [((), HU_CASE)],
    lines=[one.name for one in HU_POLICIES],
    run=_hu,
    columns=(
        RunColumn("queueing", lambda run: run.queue_min, 2, measure="mean queueing, min", half=True),
        RunColumn("total", lambda run: run.total_min, 2, measure="mean total time, min", half=True),
        RunColumn("resizes", lambda run: run.num_resizes, 0),
    ),
    table_title="means over seeds in minutes; +-: half of the 95 % interval",
    paper=HU,
    named=BY_QUEUEING,
    about=f"Hu et al., {HU_CASE.nodes} nodes",
    num_seeds=lambda: NUM_SEEDS,
).study

# FlowCon: learning jobs that share too few cores

NUM_JOBS = 40
#: Of each node.
NUM_SLOTS = 10
CORE_PROFILES = "law:0.8"
#: Jobs ask for one worker, and for this time with a core alone.
DEMAND = Demand(device_weights={1: 1.0}, median_s=180.0, spread=1.0)
REPORT_S = 2.0
PAPERS = "flowcon_fit"
CORES_POLICIES = (PAPERS, "flowcon", DEFAULT, "srtf", UNIFIED)


class SharedCluster(NamedTuple):
    """Nodes whose slots share fewer cores, and how much is asked for."""

    name: str
    num_nodes: int
    cores: float  #: of each
    load: float  #: CPU seconds that arrive in a second, over all cores


CORE_CLUSTERS = (
    SharedCluster("one core, load 1.5", 1, 1.0, 1.5),
    SharedCluster("one core, load 0.5", 1, 1.0, 0.5),
    SharedCluster("two nodes of two cores, load 1.5", 2, 2.0, 1.5),
    SharedCluster("two nodes of two cores, load 0.5", 2, 2.0, 0.5),
)


def _learn(context: Context, cluster: SharedCluster, policy: str, seed: int) -> Metrics:
    num_cores = int(cluster.num_nodes * cluster.cores)
    trace = generate(Poisson(rate_per_s(DEMAND, cluster.load, num_cores)), NUM_JOBS, DEMAND, seed)
    profiles = load(CORE_PROFILES)
    workload = fill(trace, profiles, FillRules(seed=seed, deadlines="none", losses="drawn"))
    conditions = Conditions(
        nodes=cluster.num_nodes,
        devices_per_node=NUM_SLOTS,
        cores=cluster.cores,
        report_s=REPORT_S,
        seed=seed,
    )
    core = variant_core(policy, {"min_hold_s": 5.0, "report_plan_s": 60.0})
    return metrics_of(simulate(core, set_up(workload, profiles, conditions)))


def _learnt_s(metrics: Metrics) -> float:
    """Mean time from submission to 95 % of the drop of the loss."""
    return metrics.time_to_95_s if isinstance(metrics.time_to_95_s, float) else float("nan")


SHARED_CORES = PolicyComparison(
    name="cores",
    title="FlowCon: learning jobs on shared cores",
    truth=f"{NUM_JOBS} generated jobs without deadlines on nodes of {NUM_SLOTS} slots; durations drawn "
    f"around {DEMAND.median_s:g} s, loss curves drawn; profiles {CORE_PROFILES}; a report each {REPORT_S:g} "
    "s; noise 0; settings min_hold_s=5, report_plan_s=60",
    heading=("cluster",),
    cases=lambda: [((cluster.name,), cluster) for cluster in CORE_CLUSTERS],
    lines=CORES_POLICIES,
    run=_learn,
    columns=(
        RunColumn("time to 95 %", _learnt_s, measure="time to 95 % of the drop, s", half=True),
        RunColumn(
            "mean completion", lambda run: run.avg_jct_s or 0.0, measure="mean completion, s", half=True
        ),
        RunColumn("resizes", lambda run: run.resizes),
    ),
    table_title="means over seeds in seconds; +-: half of the 95 % interval",
    paper=PAPERS,
    about="FlowCon, {0}",
    num_seeds=lambda: NUM_SEEDS,
).study
