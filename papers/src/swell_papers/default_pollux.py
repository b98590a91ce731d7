"""Pollux's workloads without deadlines: completion times of `unified` and of other policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np

from swell.model.errors import InvalidInput
from swell.sim.conditions import SETTINGS, Conditions, set_up
from swell.sim.metrics import metrics_of
from swell.sim.profiles.load import load
from swell.sim.profiles.profile_set import ProfileSet
from swell.sim.simulate import simulate
from swell.sim.traces.fill import fill
from swell.sim.traces.read import read
from swell.sim.traces.rules import FillRules
from swell.sim.traces.workload import Workload
from swell_papers.default_bars import UNIFIED, DefaultBar, beside_paper, told_bars
from swell_papers.default_experiment import DefaultExperiment
from swell_papers.experiment import Context
from swell_papers.findings import Cell, Missed, Part, chart, panel, table
from swell_papers.variants import variant_core

PROFILES, WORKLOADS = "pollux/profiles", "pollux/workloads/workload-{}.csv"
#: Workloads that were looked at while the policy was written, and those that were only judged.
LOOKED_AT, JUDGED = (1, 2, 6), (3, 4, 5, 7, 8)
#: Nodes, devices of each.
CLUSTERS = ((16, 4), (4, 4))
PAPER_POLICY = "pollux"
POLICIES = (UNIFIED, "elasticflow", PAPER_POLICY, "saxena", "srtf")

#: Workload, nodes and devices of each, policy.
Run = tuple[int, tuple[int, int], str]


@dataclass(frozen=True, slots=True)
class Completion:
    """Seconds from submission to end."""

    mean_s: float
    p99_s: float


def _parts(context: Context) -> Iterator[Part]:
    numbers = sorted((*LOOKED_AT, *JUDGED))
    runs = [(number, cluster, policy) for cluster in CLUSTERS for number in numbers for policy in POLICIES]
    done = context.run_all("Pollux's workloads", (partial(completion, context, *run) for run in runs))
    found = dict(zip(runs, done, strict=True))
    yield from told_bars("pollux", list(_bars(found)))
    for number, cluster in dict.fromkeys(run[:2] for run in runs):
        bar, *_ = beside_paper(_of(number, cluster), _means_s(found, (number,), cluster), PAPER_POLICY)
        if not bar.is_reached:
            yield Missed(f"mean completion, s, {bar.told}")
    yield _table(found)
    workloads = ("Pollux's workload", [f"{number}" for number in numbers])
    panels = (
        panel(
            f"{cluster[0]}x{cluster[1]}",
            {policy: [found[number, cluster, policy].mean_s for number in numbers] for policy in POLICIES},
        )
        for cluster in CLUSTERS
    )
    title = "Mean completion of Pollux's workloads without deadlines"
    yield chart("pollux", title, "bars", workloads, "seconds", panels)


def _of(number: int, cluster: tuple[int, int]) -> str:
    return f"workload {number} on {cluster[0]}x{cluster[1]}"


def _bars(found: Mapping[Run, Completion]) -> Iterator[DefaultBar]:
    """Means over workloads, those that were judged apart from the others."""
    for cluster in CLUSTERS:
        for told, numbers in (("judged only", JUDGED), ("looked at", LOOKED_AT)):
            some = ", ".join(map(str, numbers))
            measure = f"Pollux's workloads {some} ({told}), {cluster[0]}x{cluster[1]}: mean completion, s"
            yield from beside_paper(measure, _means_s(found, numbers, cluster), PAPER_POLICY)


def _means_s(
    found: Mapping[Run, Completion], numbers: Sequence[int], cluster: tuple[int, int]
) -> dict[str, float]:
    return {
        policy: float(np.mean([found[number, cluster, policy].mean_s for number in numbers]))
        for policy in POLICIES
    }


def _table(found: Mapping[Run, Completion]) -> Part:
    """A row for each workload on each cluster."""
    heading = [("mean, " + policy, 0) for policy in POLICIES] + [("p99, " + policy, 0) for policy in POLICIES]
    rows: list[tuple[Cell, ...]] = []
    for number, cluster in dict.fromkeys(run[:2] for run in found):
        some = [found[number, cluster, policy] for policy in POLICIES]
        first = (f"{cluster[0]}x{cluster[1]}", number, "looked at" if number in LOOKED_AT else "judged only")
        rows.append((*first, *(one.mean_s for one in some), *(one.p99_s for one in some)))
    title = "completion in seconds, from submission to end, and whether the workload was looked at before"
    return table("pollux", title, ("cluster", "workload", "input", *heading), rows)


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


POLLUX = DefaultExperiment(
    name="pollux",
    title="Pollux's workloads without deadlines",
    truth="Pollux's measurements are the truth; 160 jobs a workload; resize cost changed, noise 0",
    parts=_parts,
    needs=(PROFILES, *(WORKLOADS.format(number) for number in sorted((*LOOKED_AT, *JUDGED)))),
)
