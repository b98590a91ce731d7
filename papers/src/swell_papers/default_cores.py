"""FlowCon's measure under `unified` and other policies: learning jobs that share too few cores."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from swell.scheduler import new_core
from swell.settings import Settings
from swell.sim.conditions import Conditions, set_up
from swell.sim.metrics import Metrics, metrics_of
from swell.sim.profiles.load import load
from swell.sim.simulate import simulate
from swell.sim.traces.arrivals import Poisson
from swell.sim.traces.fill import fill
from swell.sim.traces.generate import Demand, generate
from swell.sim.traces.rules import FillRules
from swell_papers.default_bars import DEFAULT, UNIFIED, DefaultBar, beside_paper, told_bars
from swell_papers.default_experiment import DefaultExperiment
from swell_papers.experiment import Context
from swell_papers.findings import Part, table
from swell_papers.intervals import Interval
from swell_papers.promise_inputs import rate_per_s

NUM_SEEDS = 5
NUM_JOBS = 40
#: Of each node.
NUM_SLOTS = 10
PROFILES = "law:0.8"
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


CLUSTERS = (
    SharedCluster("one core, load 1.5", 1, 1.0, 1.5),
    SharedCluster("one core, load 0.5", 1, 1.0, 0.5),
    SharedCluster("two nodes of two cores, load 1.5", 2, 2.0, 1.5),
    SharedCluster("two nodes of two cores, load 0.5", 2, 2.0, 0.5),
)


def _learn(policy: str, cluster: SharedCluster, seed: int) -> Metrics:
    num_cores = int(cluster.num_nodes * cluster.cores)
    trace = generate(Poisson(rate_per_s(DEMAND, cluster.load, num_cores)), NUM_JOBS, DEMAND, seed)
    profiles = load(PROFILES)
    workload = fill(trace, profiles, FillRules(seed=seed, deadlines="none", losses="drawn"))
    conditions = Conditions(
        nodes=cluster.num_nodes,
        devices_per_node=NUM_SLOTS,
        cores=cluster.cores,
        report_s=REPORT_S,
        seed=seed,
    )
    head = Settings(min_hold_s=5.0, report_plan_s=60.0)
    return metrics_of(simulate(new_core(policy, head), set_up(workload, profiles, conditions)))


def _cores(context: Context) -> Iterator[Part]:
    seeds = context.seeds(NUM_SEEDS)
    runs = [(policy, cluster, seed) for cluster in CLUSTERS for policy in CORES_POLICIES for seed in seeds]
    done = context.run_all("shared cores", (partial(_learn, *run) for run in runs))
    found = dict(zip(runs, done, strict=True))
    bars: list[DefaultBar] = []
    rows = []
    for cluster in CLUSTERS:
        of = {policy: [found[policy, cluster, seed] for seed in seeds] for policy in CORES_POLICIES}
        learnt_s = {policy: Interval.of([_learnt_s(one) for one in some]) for policy, some in of.items()}
        took_s = {policy: Interval.of([one.avg_jct_s or 0.0 for one in some]) for policy, some in of.items()}
        for told, some in (("time to 95 % of the drop", learnt_s), ("mean completion", took_s)):
            values = {policy: interval.mean for policy, interval in some.items()}
            bars += beside_paper(f"FlowCon, {cluster.name}: {told}, s", values, PAPERS)
        rows += [
            (cluster.name, policy, *learnt_s[policy], *took_s[policy], _mean_resizes(of[policy]))
            for policy in CORES_POLICIES
        ]
    yield from told_bars("cores", bars)
    heading = ("cluster", "policy", ("time to 95 %", 1), ("+-", 1), ("mean completion", 1), ("+- ", 1))
    title = "means over seeds in seconds; +-: half of the 95 % interval"
    yield table("cores", title, (*heading, ("resizes", 1)), rows)


def _learnt_s(metrics: Metrics) -> float:
    """Mean time from submission to 95 % of the drop of the loss."""
    return metrics.time_to_95_s if isinstance(metrics.time_to_95_s, float) else float("nan")


def _mean_resizes(runs: list[Metrics]) -> float:
    return Interval.of([float(run.resizes) for run in runs]).mean


SHARED_CORES = DefaultExperiment(
    name="cores",
    title="FlowCon: learning jobs on shared cores",
    truth=f"{NUM_JOBS} generated jobs without deadlines on nodes of {NUM_SLOTS} slots; durations drawn "
    f"around {DEMAND.median_s:g} s, loss curves drawn; profiles {PROFILES}; a report each {REPORT_S:g} s; "
    "noise 0; settings min_hold_s=5, report_plan_s=60",
    parts=_cores,
    num_seeds=NUM_SEEDS,
)
