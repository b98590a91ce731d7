"""The bars of the policy `unified`: each paper's own measure, and a queue of all kinds of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from swell.sim.conditions import Conditions
from swell.sim.metrics import Metrics, metrics_of
from swell.sim.traces.entry import Workload
from swell.sim.traces.fill import FillRules, fill
from swell.sim.traces.read import read
from swell_papers import mixed_queue
from swell_papers.experiment import Claim, Context, Key, Measure, Paper, Picture, Results, Study
from swell_papers.hu import Allocator, HuCase, measured
from swell_papers.mixed_queue import (
    DEFAULT,
    JUDGED,
    LOADS,
    PROFILES,
    REFUSED_END,
    UNIFIED,
    WORKLOADS,
    QueueCounts,
    pollux_profiles,
    run_queue,
)
from swell_papers.saxena import JCT, SaxenaCase, SaxenaLine, run_once
from swell_papers.saxena_workload import MINUTE_S, Pattern
from swell_papers.variants import simulated_under

#: With its default objective `unified` may be so much behind a paper's policy on the measure of that paper.
LEEWAY_SHARE = 0.03
NUM_SEEDS = 5
BY_THROUGHPUT, BY_QUEUEING = (f"{UNIFIED}, gains_by={gain}" for gain in ("throughput", "queueing"))

T = TypeVar("T")
#: A figure of the line of a policy.
OfLine = Callable[[Results[T], str], float]


def beside_paper(text: str, of: OfLine[T], paper: str, named: str = "") -> Iterator[Claim[T]]:
    """`unified` is near a paper's policy on its measure, and at it where that paper's objective is named.

    Less of the measure is better.

    Args:
        named: label of `unified` with the objective of the paper; empty: the paper has none of its own.
    """
    ways = [(UNIFIED, 1.0 + LEEWAY_SHARE, f"{paper} {LEEWAY_SHARE:+.0%}")]
    ways += [(named, 1.0, f"{named.removeprefix(f'{UNIFIED}, ')}, {paper}")] if named else []
    for ours, times, told in ways:
        yield Claim(
            text=f"{text}; {told}",
            figure=lambda found, times=times: times * of(found, paper),  # type: ignore[misc]
            of=lambda found, ours=ours: of(found, ours),  # type: ignore[misc]
            way="<=",
            is_target=True,
        )


CaseT = TypeVar("CaseT")


def comparison(
    name: str,
    title: str,
    truth: str,
    keys: tuple[str, ...],
    cases: Mapping[Key, CaseT],
    lines: Sequence[str],
    run: Callable[[CaseT, str, int], T],
    measures: Sequence[Measure[T]],
    judged: Sequence[str],
    paper: str,
    named: str,
    about: str,
) -> Study[T]:
    """Policies on the inputs of one paper.

    Args:
        keys: what the words of the cases are.
        lines: labels of policies.
        run: takes the case, a label, and the seed.
        judged: names of measures that are claimed of; less of each is better.
        paper: label of the paper's own policy; `named` that of ours with the paper's objective.
        about: of a case's words: how its claims begin.
    """

    def runs(context: Context) -> dict[Key, Callable[[], T]]:
        return {
            (*words, line, seed): partial(run, case, line, seed)
            for words, case in cases.items()
            for line in lines
            for seed in context.seeds(NUM_SEEDS)
        }

    def of(measure: Measure[T], words: Key, found: Results[T], line: str) -> float:
        return found.mean(measure.of, *words, line)

    return Study(
        name=name,
        title=title,
        truth=truth,
        cases=runs,
        keys=(*keys, "policy"),
        measures=measures,
        caption="means over seeds",
        claims=[
            claim
            for words in cases
            for measure in measures
            if measure.name in judged
            for claim in beside_paper(
                f"{about.format(*words)}{measure.name}",
                partial(of, measure, words),
                paper,
                named,
            )
        ],
        num_seeds=NUM_SEEDS,
    )


# Pollux: completion times of its workloads without deadlines

#: Workloads that were looked at while the policy was written; the others were only judged.
LOOKED_AT = (1, 2, 6)
#: Nodes, devices of each.
CLUSTERS = {"16x4": (16, 4), "4x4": (4, 4)}
POLLUX_POLICIES = (UNIFIED, "elasticflow", "pollux", "saxena", "srtf")
NUMBERS = sorted((*LOOKED_AT, *JUDGED))


def completion(context: Context, number: int, cluster: str, policy: str) -> Metrics:
    """Run one policy on one workload."""
    nodes, devices = CLUSTERS[cluster]
    conditions = Conditions(nodes=nodes, devices_per_node=devices, seed=context.seed)
    workload = _workload(context.data, number, context.seed)
    return metrics_of(simulated_under(policy, workload, pollux_profiles(context.data), conditions))


@cache
def _workload(data: Path, number: int, seed: int) -> Workload:
    trace = read(data / WORKLOADS.format(number))
    return fill(trace, pollux_profiles(data), FillRules(seed=seed, deadlines="none"))


def _mean_s(cluster: str, numbers: Sequence[int], found: Results[Metrics], policy: str) -> float:
    return fmean(found.mean(MEAN_S.of, cluster, number, policy) for number in numbers)


MEAN_S: Measure[Metrics] = Measure("mean", lambda one: one.avg_jct_s, 0)
POLLUX = Study(
    name="pollux",
    title="Pollux's workloads without deadlines",
    cases=lambda context: {
        (cluster, number, policy): partial(completion, context, number, cluster, policy)
        for cluster in CLUSTERS
        for number in NUMBERS
        for policy in POLLUX_POLICIES
    },
    keys=("cluster", "workload", "policy"),
    measures=(MEAN_S, Measure("p99", lambda one: one.p99_jct_s, 0)),
    caption="completion in seconds, from submission to end",
    pictures=(
        Picture(measures=("mean",), x="workload", lines="policy", panels="cluster", y_label="seconds"),
    ),
    claims=[
        claim
        for cluster in CLUSTERS
        for told, numbers in (
            ("judged only", JUDGED),
            ("looked at", LOOKED_AT),
            *(("alone", (number,)) for number in NUMBERS),
        )
        for claim in beside_paper(
            f"Pollux's workloads {', '.join(map(str, numbers))} ({told}), {cluster}: mean completion, s",
            partial(_mean_s, cluster, numbers),
            "pollux",
        )
    ],
    truth="Pollux's measurements are the truth; 160 jobs a workload; resize cost changed, noise 0",
    needs=(PROFILES, *map(WORKLOADS.format, NUMBERS)),
)

# The mixed queue

#: Their labels; the default and the one before it also with refused jobs that end.
MIXED_LINES = (
    *(UNIFIED, DEFAULT, "edf_admission", "saxena", "pollux", "bftrainer"),
    *(f"{policy}{REFUSED_END}" for policy in (UNIFIED, DEFAULT)),
)
NUM_MIXED_SEEDS = 20
#: Each measure, and whether more of it is better.
MIXED_MEASURES: Mapping[Measure[QueueCounts], bool] = {
    Measure("strict promised", lambda one: one.strict_promised, 1, True): True,
    Measure("strict in time", lambda one: one.strict_kept, 1, True): True,
    Measure("soft in time", lambda one: one.soft_in_time, 1, True): True,
    Measure("mean completion of best effort, min", lambda one: one.best_effort_min, 1, True): False,
    Measure("work in time, device-hours as asked for", lambda one: one.kept_device_h, 1, True): True,
}
LATE: Measure[QueueCounts] = Measure("late", lambda one: one.late, 1)


def _best_other(measure: Measure[QueueCounts], load: float, found: Results[QueueCounts]) -> float:
    values = [found.mean(measure.of, load, policy) for policy in MIXED_LINES if UNIFIED not in policy]
    return max(values) if MIXED_MEASURES[measure] else min(values)


def _mixed_claims(load: float) -> Iterator[Claim[QueueCounts]]:
    """Each measure at the best other policy; no promise late."""
    told = f"mixed queue, load {load:g}"
    for measure, is_most in (*MIXED_MEASURES.items(), (LATE, False)):
        is_late = measure is LATE
        yield Claim(
            text=f"{told}: promises broken" if is_late else f"{told}: {measure.name}; the best other policy",
            figure=0.0 if is_late else partial(_best_other, measure, load),
            of=measure.at(load, UNIFIED),
            way=">=" if is_most else "<=",
            is_target=True,
        )


MIXED = Study(
    name="mixed",
    title="A mixed queue on owned and borrowed nodes",
    truth=mixed_queue.TRUTH,
    cases=lambda context: {
        (load, line, seed): partial(run_queue, context.data, line, load, seed)
        for load in LOADS
        for line in MIXED_LINES
        for seed in context.seeds(NUM_MIXED_SEEDS)
    },
    keys=("load", "policy"),
    measures=(*MIXED_MEASURES, LATE),
    caption=f"means over seeds; strict and soft jobs are counted, of {mixed_queue.NUM_JOBS} jobs; +-: half "
    "of the 95 % interval",
    pictures=(
        Picture(
            measures=("strict promised", "strict in time", "soft in time"),
            x="policy",
            panels="load",
            y_label="jobs with a deadline",
        ),
    ),
    claims=[claim for load in LOADS for claim in _mixed_claims(load)],
    num_seeds=NUM_MIXED_SEEDS,
    needs=(PROFILES, *map(WORKLOADS.format, JUDGED)),
)

# Saxena et al.

SAXENA_LINES = {
    "saxena": SaxenaLine(label="saxena", policy="saxena", drops=False),
    **{
        name: SaxenaLine(label=name, policy=UNIFIED, drops=None, parameters={"gains_by": "throughput"})
        if name == BY_THROUGHPUT
        else SaxenaLine(label=name, policy=name, drops=None)
        for name in ("pollux", DEFAULT, "srtf", UNIFIED, BY_THROUGHPUT)
    },
}


SAXENA_QUEUE = comparison(
    name="saxena",
    title="Saxena et al.: a queue on 40 devices",
    truth="the scaling model of Saxena et al. is the truth; all four categories; 240 min of arrivals; jobs "
    "queue; changes are free, noise 0",
    keys=("load",),
    cases={
        (load,): SaxenaCase(
            name=f"{load:g}",
            pattern=Pattern(name=f"load {load:g}", minutes=240.0, high=load),
            num_devices=40,
            categories=(0, 1, 2, 3),
            lines=(),
        )
        for load in (0.75, 1.0, 3.0)
    },
    lines=list(SAXENA_LINES),
    run=lambda case, label, seed: run_once(case, SAXENA_LINES[label], seed),
    measures=(
        Measure("jobs", lambda run: run.metrics.jobs, 0),
        Measure("completed", lambda run: run.metrics.completed, 0),
        Measure("mean completion, min", JCT.of, 1, has_interval=True),
        Measure("makespan, min", lambda run: run.metrics.makespan_s / MINUTE_S, 1),
        Measure("resizes", lambda run: run.metrics.resizes, 0),
    ),
    judged=("mean completion, min", "makespan, min"),
    paper="saxena",
    named=BY_THROUGHPUT,
    about="Saxena et al., load {0}: ",
)

# Hu et al.

HU_LINES = {
    **{name: Allocator(policy=name) for name in ("hu", DEFAULT, "equal_share", UNIFIED)},
    BY_QUEUEING: Allocator(policy=UNIFIED, parameters=(("gains_by", "queueing"),)),
}
HU_NODES = 110


HU_JOBS = comparison(
    name="hu",
    title=f"Hu et al.: {HU_NODES} nodes",
    truth="the 447 generated jobs of 5 min or more; resizes are free, noise 0; hu decides every 5 min, the "
    "others at each arrival and end",
    keys=(),
    cases={(): HuCase(nodes=HU_NODES)},
    lines=list(HU_LINES),
    run=lambda case, label, seed: measured(HU_LINES[label], case, seed),
    measures=(
        Measure("mean queueing, min", lambda run: run.queue_min, 2, has_interval=True),
        Measure("mean total time, min", lambda run: run.total_min, 2, has_interval=True),
        Measure("resizes", lambda run: run.num_resizes, 0),
    ),
    judged=("mean queueing, min", "mean total time, min"),
    paper="hu",
    named=BY_QUEUEING,
    about=f"Hu et al., {HU_NODES} nodes: ",
)

PAPER = Paper.with_page(
    "default",
    "One policy for one queue",
    "they are Pollux's workloads and profiles, as pollux/workloads/workload-N.csv and pollux/profiles",
    *(POLLUX, MIXED, SAXENA_QUEUE, HU_JOBS),
)
