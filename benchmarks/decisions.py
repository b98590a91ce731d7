"""`make bench-decisions`: what one event costs in the head, from the batch to the commands.

A cluster nearly full of jobs: when one ends another one comes, and the machines answer. CPU time of
`Core.handle` on one thread, by what the batch was about. The world's own time is not counted.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.crowd import Crowd, Member, Mix, TableBelief, nodes, tenant_name
from swell.core.core import Core
from swell.core.core_settings import CoreSettings
from swell.core.planner import Planner
from swell.model.event import (
    AnyEvent,
    GangEnded,
    JobProfiled,
    JobSubmitted,
    NodeJoined,
    Opened,
    QuotasSet,
    Woke,
)
from swell.model.job import JobClass, Phase
from swell.model.plan import Allocation, Placement
from swell.model.quota import Quota
from swell.model.snapshot import Snapshot
from swell.placement.best_fit import BestFitPlacer
from swell.policies.policy import Policy
from swell.policies.registry import new_policy
from swell.policies.unpromised import Fifo

CASES = "100/256 300/1024 1000/2783 5000/10000"  #: active jobs/devices
#: Turns before the first that counts: machine code is fetched, and what the first plan changed is done.
NUM_WARM_UP = 40
#: Of an equal part of the devices, that each tenant may have.
QUOTA_SHARE = 1.2
KINDS = ("submission", "arrival", "refusal", "completion", "answer", "timer")


class AsDrawn(Fifo):
    """Promises every deadline, and gives each job what it was drawn with: how a crowd begins."""

    name = "as_drawn"
    makes_promises = True

    members: dict[str, Member]

    def decide(self, snapshot: Snapshot) -> Allocation:
        drawn = np.array([self.members[job_id].workers for job_id in snapshot.job_ids], dtype=np.int64)
        return Fifo.decide(self, snapshot.with_only(snapshot.options.workers == drawn[snapshot.options.rows]))


@dataclass
class Stopwatch:
    """CPU time of one thread, spent in calls of what was given to it."""

    spent_s: float = 0.0

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            began_s = time.thread_time()
            try:
                return call(*args, **kwargs)
            finally:
                self.spent_s += time.thread_time() - began_s

        return wrapper


class TimedPolicy:
    """Stands for a policy: what it declares is the policy's."""

    def __init__(self, policy: Policy, watch: Stopwatch) -> None:
        self._policy = policy
        self.decide: Callable[[Snapshot], Allocation] = watch.timed(policy.decide)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)


class TimedPlacer(BestFitPlacer):
    def __init__(self, watch: Stopwatch) -> None:
        super().__init__()
        self._timed: Callable[..., Placement] = watch.timed(super().place)

    def place(self, *args: Any, **kwargs: Any) -> Placement:
        return self._timed(*args, **kwargs)


@dataclass
class Turns:
    """What turns of one kind took, in milliseconds, and the parts of it."""

    total_ms: list[float] = field(default_factory=list)
    policy_ms: list[float] = field(default_factory=list)
    placer_ms: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        return {
            "num": len(self.total_ms),
            "median_ms": float(np.median(self.total_ms)),
            "p99_ms": float(np.quantile(self.total_ms, 0.99)),
            "max_ms": max(self.total_ms),
            "policy_median_ms": float(np.median(self.policy_ms)),
            "placer_median_ms": float(np.median(self.placer_ms)),
        }


class Trial:
    """One case: a head, its world, and the turns that were counted."""

    def __init__(self, num_jobs: int, num_devices: int, mix: Mix, seed: int, policy: str) -> None:
        self.num_jobs, self.num_devices = num_jobs, num_devices
        self.turns = {kind: Turns() for kind in KINDS}
        self._policy_watch, self._placer_watch = Stopwatch(), Stopwatch()
        self._crowd = Crowd(mix, seed)
        planner = Planner(
            cast(Policy, TimedPolicy(new_policy(policy), self._policy_watch)),
            TimedPlacer(self._placer_watch),
            {"as_drawn": AsDrawn(members=self._crowd.members)},
        )
        self._policy, self._num_tenants = policy, mix.num_tenants
        self._core = Core(planner, TableBelief(self._crowd.members), CoreSettings())

    def gather(self) -> None:
        """Everybody is there, runs as drawn, and then the policy that is measured takes over."""
        crowd = self._crowd
        self._turn([NodeJoined(at_s=crowd.now_s, node=node) for node in nodes(self.num_devices)])
        self._turn([Opened(at_s=crowd.now_s, policy="as_drawn")])
        self._turn(crowd.newcomers(self.num_jobs, self.num_devices))
        while crowd.has_answers:
            self._turn(crowd.next_events())
        self._turn([Opened(at_s=crowd.now_s, policy=self._policy)])
        if self._num_tenants:
            quota = Quota(share=min(QUOTA_SHARE / self._num_tenants, 1.0))
            tenants = [tenant_name(number) for number in range(self._num_tenants)]
            self._turn([QuotasSet(at_s=crowd.now_s, quotas=dict.fromkeys(tenants, quota))])
        for _ in range(NUM_WARM_UP):
            self._follow(crowd.next_events())
        self.turns = {kind: Turns() for kind in KINDS}

    def run(self, num_events: int) -> None:
        """So many turns that count: those in which something was planned or answered."""
        for _ in range(num_events):
            self._follow(self._crowd.next_events())

    def _follow(self, batch: Sequence[AnyEvent]) -> None:
        """A turn, and another job for one that has left."""
        num_left = sum(isinstance(event, GangEnded) for event in batch)
        num_left += self._turn(batch)
        if num_left:
            self._turn([self._crowd.newcomer() for _ in range(num_left)])

    def _turn(self, batch: Sequence[AnyEvent]) -> int:
        """Number of jobs that were refused."""
        policy_s, placer_s = self._policy_watch.spent_s, self._placer_watch.spent_s
        began_s = time.thread_time()
        commands = self._core.handle(batch)
        ended = self._core.ended_views()  # counter-offers are found here
        total_s = time.thread_time() - began_s
        refused = [view for view in ended if view.phase is Phase.REJECTED]
        turns = self.turns[_kind(batch, bool(refused))]
        turns.total_ms.append(1e3 * total_s)
        turns.policy_ms.append(1e3 * (self._policy_watch.spent_s - policy_s))
        turns.placer_ms.append(1e3 * (self._placer_watch.spent_s - placer_s))
        for view in refused:
            del self._crowd.members[view.id]
        self._crowd.perform(commands)
        return len(refused)

    def describe(self) -> dict[str, Any]:
        views = self._core.views()
        promised = sum(view.is_promised for view in views)
        return {
            "jobs": self.num_jobs,
            "devices": self.num_devices,
            "promised": promised,
            "at_risk": sum(view.reason_code == "at_risk" for view in views),
            "soft": sum(view.job_class is JobClass.SOFT for view in views),
            "running": sum(view.phase is Phase.RUNNING for view in views),
            "devices_in_use": sum(len(view.devices) for view in views),
            "events": {kind: turns.summary() for kind, turns in self.turns.items() if turns.total_ms},
        }


def _kind(batch: Sequence[AnyEvent], is_refusal: bool) -> str:
    if is_refusal:
        return "refusal"
    if any(isinstance(event, JobProfiled) for event in batch):
        return "arrival"
    if any(isinstance(event, JobSubmitted) for event in batch):
        return "submission"
    if any(isinstance(event, GangEnded) for event in batch):
        return "completion"
    return "timer" if any(isinstance(event, Woke) for event in batch) else "answer"


def table_of(found: Iterable[dict[str, Any]]) -> Table:
    table = Table(box=SIMPLE_HEAD, title="CPU time of one turn of the head, ms")
    for head in ("jobs", "devices", "promised", "turn", "number", "median", "p99", "policy", "placer"):
        table.add_column(head, justify="left" if head == "turn" else "right")
    for case in found:
        for kind, figures in case["events"].items():
            table.add_row(
                *(str(case["jobs"]), str(case["devices"]), str(case["promised"]), kind, str(figures["num"])),
                *(
                    f"{figures[name]:.2f}"
                    for name in ("median_ms", "p99_ms", "policy_median_ms", "placer_median_ms")
                ),
            )
    return table


def measure(case: tuple[int, int], options: argparse.Namespace) -> dict[str, Any]:
    mix = Mix(strict_share=options.strict, soft_share=options.soft, num_tenants=options.tenants)
    trial = Trial(*case, mix, options.seed, options.policy)
    trial.gather()
    gc.collect()
    profiler = cProfile.Profile()
    if options.profile:
        profiler.enable()
    trial.run(options.events)
    if options.profile:
        profiler.disable()
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(options.profile)
    return trial.describe()


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench-decisions", description=__doc__)
    parser.add_argument("--cases", default=CASES, help="active jobs/devices, with blanks between")
    parser.add_argument("--events", type=int, default=300, help="turns to measure in each case")
    parser.add_argument("--policy", default="elasticflow")
    parser.add_argument("--strict", type=float, default=0.5, help="share of strict jobs")
    parser.add_argument("--soft", type=float, default=0.2, help="share of soft jobs; the rest is best-effort")
    parser.add_argument("--tenants", type=int, default=0, help="so many, each with a quota; 0: none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--profile", type=int, default=0, help="print so many functions that took longest")
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    cases = [tuple(int(number) for number in case.split("/")) for case in options.cases.split()]
    found = [measure((jobs, devices), options) for jobs, devices in cases]
    Console(width=110).print(table_of(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
