"""The measures of Saxena et al., BFTrainer and Hu et al. under `unified` and other policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from swell.sim.pool import HOUR_S
from swell_papers.bftrainer_checkpoints import SPAN_S
from swell_papers.bftrainer_inputs import ALL_INPUTS, DIVERSE, read_log, read_some_names, read_trainers
from swell_papers.bftrainer_runs import FROM_S, OPTIMISER, USUAL_FORWARD_S
from swell_papers.bftrainer_simulated import SimulatedImages, simulated
from swell_papers.default_bars import DEFAULT, UNIFIED, DefaultBar, beside_paper, told_bars
from swell_papers.default_experiment import DefaultExperiment
from swell_papers.experiment import Context
from swell_papers.findings import Part, table
from swell_papers.hu_runs import Allocator, AllocatorRun, HuCase, measured
from swell_papers.intervals import Interval
from swell_papers.saxena_cases import SaxenaCase, SaxenaLine, SaxenaResult, results_of
from swell_papers.saxena_workload import MINUTE_S, Pattern

NUM_SEEDS = 5
BY_THROUGHPUT, BY_SAMPLES, BY_QUEUEING = (
    f"{UNIFIED}, gains_by={gain}" for gain in ("throughput", "samples", "queueing")
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


def _saxena(context: Context) -> Iterator[Part]:
    results = results_of("queues of Saxena et al.", SAXENA_CASES, context)
    bars: list[DefaultBar] = []
    for case in SAXENA_CASES:
        some = [result for result in results if result.case is case]
        for told, field in (("mean completion", "avg_jct_s"), ("makespan", "makespan_s")):
            values = {one.line.label: one.count(field) / MINUTE_S for one in some}
            measure = f"Saxena et al., load {case.name}: {told}, min"
            bars += beside_paper(measure, values, SAXENA, named=BY_THROUGHPUT)
    yield from told_bars("saxena", bars)
    heading = ("load", "policy", ("jobs", 0), ("completed", 0), *SAXENA_COLUMNS)
    title = "means over seeds in minutes; +-: half of the 95 % interval of the mean completion"
    yield table("saxena", title, heading, map(_saxena_row, results))


SAXENA_COLUMNS = (
    *(("mean completion", 1), ("+-", 1), ("p99 completion", 1)),
    *(("makespan", 1), ("resizes", 0)),
)


def _saxena_row(one: SaxenaResult) -> tuple[str | float, ...]:
    interval = Interval.of([(run.metrics.avg_jct_s or 0.0) / MINUTE_S for run in one.runs])
    return (
        *(one.case.name, one.line.label, one.count("jobs"), one.count("completed"), *interval),
        *(one.count("p99_jct_s") / MINUTE_S, one.count("makespan_s") / MINUTE_S, one.count("resizes")),
    )


SAXENA_QUEUE = DefaultExperiment(
    name="saxena",
    title="Saxena et al.: a queue on 40 devices",
    truth="the scaling model of Saxena et al. is the truth; all four categories; 240 min of arrivals; jobs "
    "queue; changes are free, noise 0",
    parts=_saxena,
    num_seeds=NUM_SEEDS,
)

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

#: Trainers, interval, label of the policy.
BorrowedRun = tuple[int, float | None, str]


def _borrowed(context: Context) -> Iterator[Part]:
    runs = [
        (num, each_s, label) for num in NUM_TRAINERS for each_s in INTERVALS_S for label in BORROWED_POLICIES
    ]
    done = context.run_all("idle nodes", (partial(_images, context, *run) for run in runs))
    found = dict(zip(runs, done, strict=True))
    bars: list[DefaultBar] = []
    for num, each_s in dict.fromkeys(run[:2] for run in runs):
        values = {label: found[num, each_s, label].images / 1e9 for label in BORROWED_POLICIES}
        measure = f"BFTrainer, {num} trainers, {INTERVALS_S[each_s]}: images, billion"
        bars += beside_paper(measure, values, OPTIMISER, is_most=True, named=BY_SAMPLES)
    yield from told_bars("borrowed", bars)
    heading = ("trainers", "checkpoints", "policy", "images, billion", "done", "lost, device-hours", "turns")
    rows = (
        (
            *(num, INTERVALS_S[each_s], label, one.images / 1e9, one.num_ended),
            *(one.waste.unsaved_device_s / HOUR_S, one.num_turns),
        )
        for (num, each_s, label), one in found.items()
    )
    title = "images of all trainers; lost: training that a lost gang had not saved"
    yield table("borrowed", title, heading, rows)


def _images(context: Context, num: int, each_s: float | None, label: str) -> SimulatedImages:
    pool = read_log(context.data).of_nodes(read_some_names(context.data))
    trainers = read_trainers(context.data, DIVERSE)[:num]
    policy, parameters = _of_label(label, num)
    save_s = SAVE_S if each_s is None else 0.0
    return simulated(pool, trainers, policy, parameters, each_s, FROM_S, FROM_S + SPAN_S, save_s)


def _of_label(label: str, num: int) -> tuple[str, Mapping[str, float | str]]:
    if label == OPTIMISER:
        return label, {"t_fwd_s": USUAL_FORWARD_S, "max_trainers": float(num)}
    return (UNIFIED, {"gains_by": "samples"}) if label == BY_SAMPLES else (label, {})


BORROWED = DefaultExperiment(
    name="borrowed",
    title="BFTrainer: trainers on idle nodes",
    truth=f"{SPAN_S / HOUR_S:.0f} h of Summit's idle nodes from {FROM_S:,.0f} s of the log on, its first 150 "
    "nodes; the first trainers of the list of diverse ones; changes cost what the list says; a checkpoint "
    f"takes {SAVE_S:g} s where intervals are chosen, else no time; bftrainer takes all trainers at one time, "
    f"t_fwd_s={USUAL_FORWARD_S:g}",
    parts=_borrowed,
    needs=ALL_INPUTS,
)

# Hu et al.

HU = "hu"
HU_POLICIES = (
    *(Allocator(policy=name) for name in (HU, DEFAULT, "equal_share", UNIFIED)),
    Allocator(policy=UNIFIED, parameters=(("gains_by", "queueing"),), label=BY_QUEUEING),
)
HU_CASE = HuCase(nodes=110)


def _hu(context: Context) -> Iterator[Part]:
    seeds = context.seeds(NUM_SEEDS)
    runs = [(policy, seed) for policy in HU_POLICIES for seed in seeds]
    done = context.run_all(
        "jobs of Hu et al.",
        (partial(measured, policy, HU_CASE, seed) for policy, seed in runs),
    )
    found = dict(zip(runs, done, strict=True))
    of = {policy.name: [found[policy, seed] for seed in seeds] for policy in HU_POLICIES}
    queues = {policy: Interval.of([run.queue_min for run in some]) for policy, some in of.items()}
    totals = {policy: Interval.of([run.total_min for run in some]) for policy, some in of.items()}
    bars = [
        bar
        for told, some in (("mean queueing", queues), ("mean total time", totals))
        for bar in beside_paper(
            f"Hu et al., {HU_CASE.nodes} nodes: {told}, min",
            {policy: interval.mean for policy, interval in some.items()},
            HU,
            named=BY_QUEUEING,
        )
    ]
    yield from told_bars("hu", bars)
    heading = ("policy", ("queueing", 2), ("queueing +-", 2), ("total", 2), ("total +-", 2), ("resizes", 0))
    rows = ((policy, *queues[policy], *totals[policy], _mean_resizes(some)) for policy, some in of.items())
    title = "means over seeds in minutes; +-: half of the 95 % interval"
    yield table("hu", title, heading, rows)


def _mean_resizes(runs: Sequence[AllocatorRun]) -> float:
    return float(np.mean([run.num_resizes for run in runs]))


HU_JOBS = DefaultExperiment(
    name="hu",
    title=f"Hu et al.: {HU_CASE.nodes} nodes",
    truth="the 447 generated jobs of 5 min or more; resizes are free, noise 0; hu decides every 5 min, the "
    "others at each arrival and end",
    parts=_hu,
    num_seeds=NUM_SEEDS,
)
