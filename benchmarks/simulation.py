"""`make bench-sim`: what simulating a log costs, from the trace's file to the figures of the run.

CPU time on one core, by default options of `swell simulate`: reading the trace, filling it, every turn of
the head and of the world, and the figures. Each row has a process of its own, whose memory is counted too;
the interpreter's start is not counted, nor is compiling: the first jobs of the trace are simulated before.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import hashlib
import json
import pstats
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from swell.model.job import AfterRefusal
from swell.model.node import Node
from swell.scheduler import new_core
from swell.settings import make_settings
from swell.sim.conditions import SETTINGS, Conditions, set_up
from swell.sim.metrics import Metrics, metrics_of
from swell.sim.outcome import SimOutcome
from swell.sim.profiles.built_in import load
from swell.sim.simulate import simulate
from swell.sim.traces.fill import FillRules, fill
from swell.sim.traces.read import read
from swell.sim.world import Scenario

#: Jobs that are simulated before: enough for each kernel to have been compiled, or fetched from disk.
NUM_WARM_UP = 300
A100, T4, PHILLY = "elasticflow/throughputs_A100", "elasticflow/throughputs_T4", "philly"
MACHINES = "philly/philly_cluster_machine_list.csv"
#: CPU seconds of ElasticFlow's own simulator on the same input, where they are known.
UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One input. `cluster` is NODESxDEVICES, or the file of a list of machines."""

    name: str
    trace: str
    cluster: str
    profiles: str = A100
    policy: str = "elasticflow"
    deadlines: str = "missing"
    elastic_share: float = 1.0  #: of the jobs; the others run on what they asked for
    published_s: str = UNKNOWN


def _elasticflow(name: str, trace: str, cluster: str, published_s: str = UNKNOWN) -> Case:
    return Case(name, f"elasticflow/traces/{trace}", cluster, published_s=published_s)


def _philly(policy: str, elastic_share: float) -> Case:
    name, trace = f"philly-{policy}", "philly/philly.csv.gz"
    return Case(name, trace, MACHINES, "law", policy, deadlines="none", elastic_share=elastic_share)


CASES = (
    _elasticflow("195", "195job.csv", "16x8"),
    replace(_elasticflow("195-t4", "elasticVpollux_e.csv", "16x4", "7"), profiles=T4),
    _elasticflow("1000", "1000job_1500lam.csv", "8x8", "17-37"),
    _elasticflow("cluster01", "cluster01.csv", "64x8", "> 860"),
    _elasticflow("cluster02", "cluster02.csv.gz", "64x8"),
    _elasticflow("cluster04", "cluster04.csv.gz", "128x8"),
    _elasticflow("cluster05", "cluster05.csv.gz", "64x8"),
    _elasticflow("cluster07", "cluster07.csv.gz", "128x8"),
    _elasticflow("cluster08", "cluster08.csv.gz", "128x8"),
    _elasticflow("cluster10", "cluster10.csv", "32x8"),
    _philly("fifo", 0.0),  # it would give the first ones all there is, and the others would never be done
    _philly("tiresias", 1.0),  # gives what was asked for anyway
)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one case. Times are CPU seconds, memory is the largest that the process ever had."""

    case: str
    policy: str
    cluster: str
    jobs: int
    turns: int
    cpu_s: float  #: of all that follows
    read_s: float  #: the trace, and filling it
    head_s: float  #: in `Core.handle`, and performing what it says
    world_s: float  #: the rest of the run
    figures_s: float
    turn_ms: float  #: cpu_s over turns
    peak_mib: float
    published_s: str
    digest: str  #: of the metrics and of what became of each job: the same wherever nothing has changed


def machines(file: Path) -> tuple[Node, ...]:
    """From lines `name, devices, ...` below a heading."""
    rows = [line.split(",") for line in file.read_text().splitlines()[1:] if line]
    return tuple(
        Node(name=name, devices=tuple(f"{name}.{one}" for one in range(int(count))), kind="gpu")
        for name, count, *_ in rows
    )


def set_stage(case: Case, data: Path) -> Scenario:
    profiles = load(case.profiles if case.profiles == "law" else str(data / case.profiles))
    rules = FillRules(
        deadlines=case.deadlines,  # type: ignore[arg-type]
        elastic_share=case.elastic_share,
        unknown="draw",
    )
    workload = fill(read(data / case.trace), profiles, rules)
    nodes, cross, devices = case.cluster.partition("x")
    if cross and nodes.isdecimal():
        return set_up(workload, profiles, _conditions(int(nodes), int(devices)))
    there = machines(data / case.cluster)
    num_devices = sum(len(node.devices) for node in there)
    scenario = set_up(workload, profiles, _conditions(num_devices, 1))
    return replace(scenario, nodes=there)


def _conditions(nodes: int, devices_per_node: int) -> Conditions:
    return Conditions(nodes=nodes, devices_per_node=devices_per_node, refused=AfterRefusal.END)


def play(case: Case, scenario: Scenario) -> SimOutcome:
    return simulate(new_core(case.policy, make_settings(SETTINGS)), scenario, with_offers=False)


def measure(case: Case, data: Path, num_shown: int) -> Figures:
    """In this process, once."""
    warm_up = set_stage(case, data)
    play(case, replace(warm_up, jobs=tuple(islice(warm_up.jobs, NUM_WARM_UP))))
    del warm_up
    gc.collect()
    with Profiling(num_shown):
        begun_s = time.process_time()
        scenario = set_stage(case, data)
        read_s = time.process_time() - begun_s
        outcome = play(case, scenario)
        metrics = metrics_of(outcome)
        cpu_s = time.process_time() - begun_s
    head_s = float(outcome.decision_s.sum())
    return Figures(
        case=case.name,
        policy=case.policy,
        cluster=case.cluster if "x" in case.cluster else f"{outcome.num_devices} devices",
        jobs=len(scenario.jobs),
        turns=outcome.num_events,
        cpu_s=cpu_s,
        read_s=read_s,
        head_s=head_s,
        world_s=outcome.cpu_s - head_s,
        figures_s=cpu_s - read_s - outcome.cpu_s,
        turn_ms=1e3 * cpu_s / outcome.num_events,
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        published_s=case.published_s,
        digest=_digest(metrics, outcome),
    )


def _digest(metrics: Metrics, outcome: SimOutcome) -> str:
    return hashlib.sha256(msgspec.json.encode((metrics, tuple(outcome.jobs)))).hexdigest()[:16]


class Profiling:
    """Prints the functions that took longest, if any are asked for. That slows down all of them."""

    def __init__(self, num_shown: int) -> None:
        self._num_shown = num_shown
        self._profiler = cProfile.Profile()

    def __enter__(self) -> None:
        if self._num_shown:
            self._profiler.enable()

    def __exit__(self, *_: object) -> None:
        if self._num_shown:
            self._profiler.disable()
            stats = pstats.Stats(self._profiler, stream=sys.stderr)
            stats.sort_stats("tottime").print_stats(self._num_shown)


def in_processes(case: Case, options: argparse.Namespace) -> Figures:
    """Measured in a process of its own; the quickest of several, if that is asked for."""
    found = [_in_a_process(case, options) for _ in range(options.repeats)]
    return min(found, key=lambda figures: figures.cpu_s)


def _in_a_process(case: Case, options: argparse.Namespace) -> Figures:
    command = [sys.executable, "-m", "benchmarks.simulation", "--data", str(options.data), "--row", case.name]
    command += ["--profile", str(options.profile)]
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return msgspec.json.decode(found.splitlines()[-1], type=Figures)


HEADINGS: dict[str, Callable[[Figures], str]] = {
    "row": lambda row: row.case,
    "policy": lambda row: row.policy,
    "cluster": lambda row: row.cluster,
    "jobs": lambda row: f"{row.jobs:,}",
    "turns": lambda row: f"{row.turns:,}",
    "CPU s": lambda row: f"{row.cpu_s:.2f}",
    "reading": lambda row: f"{row.read_s:.2f}",
    "head": lambda row: f"{row.head_s:.2f}",
    "world": lambda row: f"{row.world_s:.2f}",
    "ms a turn": lambda row: f"{row.turn_ms:.3f}",
    "peak MiB": lambda row: f"{row.peak_mib:.0f}",
    "published s": lambda row: row.published_s,
}


def table_of(found: Iterable[Figures]) -> Table:
    table = Table(box=SIMPLE_HEAD, title="One simulation each, CPU seconds on one core")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in ("row", "policy") else "right")
    for row in found:
        table.add_row(*(text_of(row) for text_of in HEADINGS.values()))
    return table


def chosen(names: str) -> list[Case]:
    """Those whose names begin with one of these words; all if there is none."""
    words = names.split(",") if names else [""]
    return [case for case in CASES if any(case.name == word or case.name.startswith(word) for word in words)]


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench-sim", description=__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("data"),
        help="folder with ElasticFlow's traces and throughputs in elasticflow/, Philly's log in philly/",
    )
    parser.add_argument("--rows", default="", help=", ".join(case.name for case in CASES))
    parser.add_argument("--repeats", type=int, default=1, help="the quickest counts, on a busy machine")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--profile", type=int, default=0, help="print so many functions that took longest")
    parser.add_argument("--row", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    if options.row:
        case = next(case for case in CASES if case.name == options.row)
        print(msgspec.json.encode(measure(case, options.data, options.profile)).decode())
        return
    cases = chosen(options.rows)
    missing = [case.trace for case in cases if not (options.data / case.trace).exists()]
    if missing or not cases:
        what = f"{missing[0]} is not in {options.data}; name its folder with --data" if missing else "no row"
        sys.exit(f"bench-sim: {what}")
    found = [in_processes(case, options) for case in cases]
    Console(width=140).print(table_of(found))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(msgspec.to_builtins(found), indent=1) + "\n")


if __name__ == "__main__":
    main()
