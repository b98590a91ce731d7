"""What a node that leaves or joins costs in the head: CPU time of one turn, by what the jobs are doing."""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.crowd import Crowd, Mix, TableBelief
from swell.core.core import Core
from swell.core.core_settings import CoreSettings
from swell.core.planner import Planner
from swell.model.event import AnyEvent, NodeJoined, NodeLost
from swell.model.node import Node
from swell.model.options import Domain, Sizes
from swell.placement.best_fit import BestFitPlacer
from swell.policies.unpromised import Fifo

NODES_A_RACK = 16
#: Turns before the first that counts.
NUM_WARM_UP = 8


class EverySize(Fifo):
    """Any number of workers, up to the peak of each curve."""

    name = "every_size"
    domain = Domain(sizes=Sizes.EVERY, ends_at_peak=True)


@dataclass(frozen=True)
class Case:
    num_nodes: int
    per_node: int
    num_jobs: int
    are_running: (
        bool  #: on all devices; else one job has all of them, or as many as help, and the others wait
    )
    is_any_size: bool


CASES = (
    Case(150, 1, 1000, are_running=False, is_any_size=True),
    Case(800, 1, 1000, are_running=False, is_any_size=True),
    Case(1000, 8, 1000, are_running=True, is_any_size=False),
)


def measure(case: Case, num_events: int) -> list[float]:
    """Milliseconds of each turn."""
    crowd = Crowd(Mix(strict_share=0.0, soft_share=0.0), seed=0)
    policy = EverySize() if case.is_any_size else Fifo()
    core = Core(Planner(policy, BestFitPlacer()), TableBelief(crowd.members), CoreSettings())
    there = [_node(number, case.per_node) for number in range(case.num_nodes)]
    crowd.perform(core.handle([NodeJoined(at_s=crowd.now_s, node=node) for node in there]))
    num_devices = case.num_nodes * case.per_node
    num_wanted = num_devices if case.are_running else case.num_jobs
    crowd.perform(core.handle(crowd.newcomers(case.num_jobs, num_wanted)))
    while crowd.has_answers:
        crowd.perform(core.handle(crowd.next_events()))
    gc.collect()
    times_ms: list[float] = []

    def turn(event: AnyEvent) -> None:
        began_s = time.thread_time()
        commands = core.handle([event])
        times_ms.append(1e3 * (time.thread_time() - began_s))
        crowd.perform(commands)

    for number in range(num_events // 2 + NUM_WARM_UP):
        node = there[(37 * number) % len(there)]
        crowd.now_s += 0.01
        turn(NodeLost(at_s=crowd.now_s, name=node.name))
        turn(NodeJoined(at_s=crowd.now_s, node=node))
    return times_ms[2 * NUM_WARM_UP :]


def _node(number: int, num_devices: int) -> Node:
    return Node(
        name=f"n{number:04d}",
        devices=tuple(f"n{number:04d}.{device}" for device in range(num_devices)),
        kind="gpu",
        rack=f"r{number // NODES_A_RACK:03d}",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench-nodes", description=__doc__)
    parser.add_argument("--events", type=int, default=100, help="turns to measure in each case")
    options = parser.parse_args(arguments)
    table = Table(box=SIMPLE_HEAD, title="CPU time of the turn in which a node leaves or joins, ms")
    for head in ("nodes", "jobs", "sizes", "number", "median", "p99", "longest"):
        table.add_column(head, justify="right")
    for case in CASES:
        times_ms = measure(case, options.events)
        table.add_row(
            f"{case.num_nodes}x{case.per_node}",
            f"{case.num_jobs} {'running' if case.are_running else 'queued'}",
            "any" if case.is_any_size else "2^n",
            str(len(times_ms)),
            *(f"{np.quantile(times_ms, share):.1f}" for share in (0.5, 0.99, 1.0)),
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
