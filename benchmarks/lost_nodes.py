"""`make bench-lost-nodes`: what promises are worth where nodes fail, and what it costs to survive that.

Logs are simulated under every policy that promises deadlines, with nodes that fail one by one at random, and
with racks all of whose nodes fail at once. A node that has failed is silent until its lease and the margin
are over: the scheduler hears of it then. Each broken promise is counted by how many nodes were ever down at
once between its job's submission and its end. What was found is remembered for as long as neither the
program nor a log changes, so a run can be stopped, and goes on where it stopped.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import msgspec

from benchmarks.conditions import conditions, describe, write_json
from swell.model.event import AnyEvent, NodeJoined, NodeLost
from swell.model.job import AfterRefusal
from swell.model.node import Node
from swell.model.quantities import span
from swell.policies.registry import POLICIES
from swell.scheduler import new_core
from swell.settings import Settings, make_settings
from swell.sim.conditions import SETTINGS, Conditions, set_up
from swell.sim.faults import node_failures
from swell.sim.outcome import JobOutcome
from swell.sim.simulate import simulate
from swell.sim.world import Scenario
from swell_papers.findings import Cell, Table, TableColumn, markdown, write_csv
from swell_papers.margins import LOGS
from swell_papers.promises import DAY_S, PromiseInput, inputs_of

OURS, PER_RACK = "elasticflow", 8
INPUTS = {log.name: log for log in LOGS}
#: Nodes are replaced: a log is tried on a cluster of several racks, too.
ON_NODES = {"philly-75": 16, "philly-90": 12, "made-8": 8, "made-9": 16, "made-12": 4}
NUM_JOBS = 400
PAGE = "lost-nodes.md"


class Failures(msgspec.Struct, frozen=True, kw_only=True):
    """How often nodes fail; those of a rack all at once."""

    mean_up_s: float
    per_rack: int = 1  #: nodes

    @property
    def told(self) -> str:
        if math.isinf(self.mean_up_s):
            return "no node fails"
        what = "node" if self.per_rack == 1 else f"rack of {self.per_rack}"
        return f"a {what} fails every {span(self.mean_up_s)}"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A policy, as a row of the tables."""

    policy: str
    survive_nodes: int = 0

    @property
    def told(self) -> str:
        more = f", survives {self.survive_nodes}" if self.survive_nodes else ""
        return f"`{self.policy}`{more}"


class LostNodesCell(msgspec.Struct, frozen=True, kw_only=True):
    """What is run."""

    input: str
    line: Line
    failures: Failures
    nodes: int
    num_jobs: int = NUM_JOBS


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """A promise that was broken."""

    job: str
    late_s: float | None  #: None: it never ended
    most_down: int  #: nodes at one time, from the submission to the end of the job
    num_lost: int  #: nodes in that time, one after the other or at once


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a cell."""

    jobs: int
    met: int  #: deadlines
    promised: int
    broken: tuple[Broken, ...]
    num_failures: int  #: of nodes
    cpu_s: float

    def broken_with(self, *most_down: int) -> int:
        return sum(min(one.most_down, 2) in most_down for one in self.broken)


@dataclass(frozen=True, slots=True, kw_only=True)
class Down:
    """A node is down."""

    from_s: float
    until_s: float


FAILURES = (
    *(Failures(mean_up_s=days * DAY_S) for days in (math.inf, 5, 20, 60)),
    Failures(mean_up_s=5 * DAY_S, per_rack=PER_RACK),
)
#: With every seed; all others with the first one.
DRAWN_AGAIN = FAILURES[:2]
PROMISING = tuple(name for name, policy in POLICIES.items() if policy.makes_promises)


def lines(failures: Failures) -> Iterator[Line]:
    """Ours with and without a reserve, then all others that promise."""
    yield Line(policy=OURS)
    yield Line(policy=OURS, survive_nodes=1)
    if failures.per_rack > 1:
        yield Line(policy=OURS, survive_nodes=failures.per_rack)
    for name in PROMISING:
        if name != OURS:
            yield Line(policy=name)


def cells() -> Iterator[LostNodesCell]:
    """Racks are tried where there are two of them, at least."""
    for failures in FAILURES:
        for name, nodes in ON_NODES.items():
            if nodes >= 2 * failures.per_rack or failures.per_rack == 1:
                for line in lines(failures):
                    yield LostNodesCell(input=name, line=line, failures=failures, nodes=nodes)


def failures(
    nodes: Sequence[Node], failures: Failures, mean_down_s: float, until_s: float, seed: int
) -> list[AnyEvent]:
    """All nodes of a rack fail, and are back, at the same moment."""
    racks = [nodes[first : first + failures.per_rack] for first in range(0, len(nodes), failures.per_rack)]
    members = {rack[0].name: rack for rack in racks}
    found: list[AnyEvent] = []
    drawn = node_failures([rack[0] for rack in racks], failures.mean_up_s, mean_down_s, until_s, seed)
    for event in drawn:
        if isinstance(event, NodeLost):
            found += [NodeLost(at_s=event.at_s, name=node.name) for node in members[event.name]]
        elif isinstance(event, NodeJoined):
            found += [NodeJoined(at_s=event.at_s, node=node) for node in members[event.node.name]]
    return found


def downs(changes: Sequence[AnyEvent]) -> list[Down]:
    since_s, found = dict[str, float](), list[Down]()
    for event in changes:
        if isinstance(event, NodeLost):
            since_s[event.name] = event.at_s
        elif isinstance(event, NodeJoined):
            found.append(Down(from_s=since_s.pop(event.node.name), until_s=event.at_s))
    return found


def most_at_once(downs: Sequence[Down], from_s: float, until_s: float) -> tuple[int, int]:
    """Nodes that are down at one time within this time; and how many are down in it at all."""
    there = [down for down in downs if down.from_s < until_s and down.until_s > from_s]
    starts_s = [max(down.from_s, from_s) for down in there]
    most = max((sum(one.from_s <= at_s < one.until_s for one in there) for at_s in starts_s), default=0)
    return most, len(there)


def broken_promises(jobs: Sequence[JobOutcome], downs: Sequence[Down], end_s: float) -> Iterator[Broken]:
    for job in jobs:
        if job.is_promised and not job.is_kept:
            most, num = most_at_once(downs, job.submit_s, end_s if job.end_s is None else job.end_s)
            is_late = job.end_s is not None and job.deadline_s is not None
            late_s = job.end_s - job.deadline_s if is_late else None  # type: ignore[operator]
            yield Broken(job=job.id, late_s=late_s, most_down=most, num_lost=num)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Runs cells."""

    data: Path
    seed: int  #: of made-up jobs, of deadlines that a log lacks, and of failures

    def outcome(self, cell: LostNodesCell) -> Outcome:
        on = INPUTS[cell.input]
        begun_s, settings = time.process_time(), _settings(cell.line)
        scenario = self._scenario(cell, on, settings)
        run = simulate(new_core(cell.line.policy, settings), scenario, with_offers=False)
        jobs, down = list(run.jobs), downs(scenario.others)
        return Outcome(
            jobs=len(jobs),
            met=sum(bool(job.is_kept) for job in jobs),
            promised=sum(job.is_promised for job in jobs),
            broken=tuple(broken_promises(jobs, down, run.end_s)),
            num_failures=len(down),
            cpu_s=time.process_time() - begun_s,
        )

    def _scenario(self, cell: LostNodesCell, on: PromiseInput, settings: Settings) -> Scenario:
        profiles, workload = inputs_of(on, self.data, self.seed)
        workload = msgspec.structs.replace(workload, jobs=tuple(islice(workload.jobs, cell.num_jobs)))
        given = Conditions(nodes=cell.nodes, devices_per_node=8, seed=self.seed, refused=AfterRefusal.END)
        scenario = set_up(workload, profiles, given)
        until_s = max(job.submit_s + job.duration_s for job in workload.jobs)
        timings = replace(
            scenario.timings,
            notice_s=settings.leases.wait_s,
            checkpoint_interval_s=settings["checkpoint_interval_s"] or None,  # 0: chosen
        )
        others = failures(scenario.nodes, cell.failures, given.node_mttr_s, until_s, self.seed)
        return replace(scenario, timings=timings, others=others)


def _settings(line: Line) -> Settings:
    reserve = {f"{line.policy}.survive_nodes": float(line.survive_nodes)} if line.survive_nodes else {}
    return make_settings(SETTINGS | reserve)


Found = dict[LostNodesCell, list[Outcome]]  #: of each seed
COLUMNS = (
    "policy",
    "jobs",
    "promised",
    "met",
    "broken",
    "no node down",
    "one at a time",
    "two or more at once",
)


def by_policy(found: Found) -> Table:
    """For each way of failing a row for each policy, of all logs together."""
    rows = list[tuple[Cell, ...]]()
    for failures in FAILURES:
        of_lines = dict[Line, list[Outcome]]()
        for cell, outcomes in found.items():
            if cell.failures == failures:
                of_lines.setdefault(cell.line, []).extend(outcomes)
        for line, outcomes in of_lines.items():
            num_failures = sum(outcome.num_failures for outcome in outcomes)
            rows.append((failures.told, num_failures, *_row(line, outcomes)))
    names = ("failures", "losses", *COLUMNS)
    return Table(
        name="lost-nodes", title="all logs", columns=tuple(map(TableColumn, names)), rows=tuple(rows)
    )


def _row(line: Line, outcomes: Sequence[Outcome]) -> tuple[Cell, ...]:
    num_jobs = sum(one.jobs for one in outcomes)
    return (
        line.told,
        num_jobs,
        sum(one.promised for one in outcomes),
        sum(one.met for one in outcomes) / num_jobs,
        sum(len(one.broken) for one in outcomes),
        *(sum(one.broken_with(most) for one in outcomes) for most in (0, 1, 2)),
    )


def price(found: Found) -> Table:
    """By log: what is promised with a reserve of one node and without."""
    rows = list[tuple[Cell, ...]]()
    for name, nodes in ON_NODES.items():
        for failures in FAILURES:
            without, reserved = ([*_of(found, name, failures, survive)] for survive in (0, 1))
            if without:
                num = sum(one.num_failures for one in without)
                rows.append((name, f"{nodes}x8", failures.told, num, *_counts(without), *_counts(reserved)))
    names = ("log", "cluster", "failures", "losses", "promised", "met", "broken")
    survived = ("promised, survives 1", "met, survives 1", "broken, survives 1")
    title = "`elasticflow` with and without a reserve, by log"
    return Table(
        name="price", title=title, columns=tuple(map(TableColumn, (*names, *survived))), rows=tuple(rows)
    )


def _counts(outcomes: Sequence[Outcome]) -> tuple[int, int, int]:
    return (
        sum(one.promised for one in outcomes),
        sum(one.met for one in outcomes),
        sum(len(one.broken) for one in outcomes),
    )


def _of(found: Found, name: str, failures: Failures, survive_nodes: int) -> Iterator[Outcome]:
    line = Line(policy=OURS, survive_nodes=survive_nodes)
    for cell, outcomes in found.items():
        if (cell.input, cell.failures, cell.line) == (name, failures, line):
            yield from outcomes


INTRODUCTION = """# Promises where nodes fail

<!-- Written by `python -m benchmarks.lost_nodes`; change the program, not this page. -->

By default a promise does not allow for the loss of a node. With `--set elasticflow.survive_nodes=1` it
[survives the loss of any one node](../explanation/promises.md#when-a-node-is-lost), and more deadlines are
refused. This page has what becomes of promises where nodes fail, under every policy that makes any, and
what the reserve costs.

`make bench-lost-nodes OPTIONS="--data FOLDER --docs docs"` writes this page. Nodes fail at random and are
back after an hour on average. A node that has failed is silent for 35 s, its lease and the margin, before the
scheduler hears of it. A job that has lost its last worker goes on from its last checkpoint, and the platform
chooses how often there is one. Logs without failures, and with the most frequent ones, are made twice, with
other deadlines and failures. Jobs of `philly-75` are short: a reserve promises nothing to one whose window is
shorter than the silence of a lost node and the time to make up for it.

Broken promises are counted by how many nodes were down at one time between the submission of the job and its
end; that a node was down need not be the cause. `edf_admission_largest` is `edf_admission` with
`--set edf_admission.largest=1`.
"""


def page(found: Found) -> str:
    logs = [
        f"* {name}: the first {NUM_JOBS} jobs of: {INPUTS[name].title} (here on {nodes}x8)"
        for name, nodes in ON_NODES.items()
    ]
    of_log = "`elasticflow` with and without a reserve, log by log: [price.csv](lost-nodes/price.csv).\n"
    return "\n".join([INTRODUCTION, markdown(by_policy(found)) + "\n", of_log, *logs, ""])


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench-lost-nodes", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data"), help="with Philly's log and ElasticFlow's")
    parser.add_argument("--docs", type=Path, help="write results/lost-nodes.md there")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seeds", type=int, default=2, help="of logs and of failures (default: %(default)s)")
    return parser.parse_args(words)


def run(options: argparse.Namespace) -> Found:
    """All cells of all seeds."""
    found = Found()
    for seed in range(options.seeds):
        runs = Cells(data=options.data, seed=seed)
        for cell in cells():
            if seed and cell.failures not in DRAWN_AGAIN:
                continue
            outcome = runs.outcome(cell)
            found.setdefault(cell, []).append(outcome)
            tell(seed, cell, outcome)
    return found


def tell(seed: int, cell: LostNodesCell, outcome: Outcome) -> None:
    what = f"seed {seed} {cell.input:10} {cell.failures.told:32} {cell.line.told:32}"
    print(f"{what} {outcome.promised}/{outcome.jobs} promised, {outcome.met} met, {outcome.cpu_s:.1f} s")
    for broken in outcome.broken:
        print(f"    {broken}")


def main() -> None:
    options = parse()
    known = conditions()
    found = run(options)
    for table in (by_policy(found), price(found)):
        print(f"\n{table.title}\n\n{markdown(table)}")
    print(f"\n{describe(known)}")
    print(f"CPU: {sum(outcome.cpu_s for outcomes in found.values() for outcome in outcomes):.0f} s")
    if options.docs:
        results = options.docs / "results"
        (results / PAGE).write_text(page(found))
        write_csv(price(found), [describe(known)], results / Path(PAGE).stem)
    if options.json:
        write_json(options.json, [msgspec.to_builtins(pair) for pair in found.items()])


if __name__ == "__main__":
    main()
