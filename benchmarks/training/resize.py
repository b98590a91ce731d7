"""`make bench-resize`: what a change of size takes from training, under torchrun and under Swell."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from tests.machines.links import Link, add_options

from benchmarks.conditions import conditions, describe, write_json
from benchmarks.training.pauses import Pause, pause_of
from benchmarks.training.problem import NUM_PROCESSES, OPTIMIZERS, SIZES, USUAL
from benchmarks.training.sides import ROOT, TRAIN, Case, Side, SideFailed, kill_worker, wait_for_group
from benchmarks.training.swell_side import SwellSide
from benchmarks.training.table import (
    OURS,
    RIVAL,
    Row,
    joiners_table_of,
    row_of,
    table_of,
    verdict_on,
)
from benchmarks.training.torchrun_side import TorchrunSide
from benchmarks.training.train import ENDLESS, GLOBAL_BATCH
from benchmarks.training.two_hosts import ACROSS, SwellAcross, TorchrunAcross
from swell.core.costs import CostTable
from swell.core.record import JobRecord
from swell.model.job import EndCondition, JobSpec
from swell.model.resize import CostKind

SIDES: dict[str, Callable[[Case, Path], Side]] = {
    RIVAL: TorchrunSide,
    OURS: lambda case, folder: SwellSide(
        folder, TRAIN, case.args(folder), NUM_PROCESSES.get(case.optimizer, 1)
    ),
}
#: Steps of the new group that a change is given, the first among them.
NUM_STEPS = 9
LIMIT_S = 300.0
#: The job as the head knows it: what changes cost is remembered by kind of script.
SPEC = JobSpec(
    name="bench",
    entry=str(TRAIN),
    workdir=str(ROOT),
    global_batch=GLOBAL_BATCH,
    end=EndCondition(steps=ENDLESS),
)
#: Of `--hosts 2`: a model without a state of the optimizer, for machines share no checkpoint.
ON_TWO_HOSTS = {"sizes": ["25M"], "optimizers": ["sgd"], "rounds": ["hosts"]}


@dataclass(frozen=True)
class Change:
    """What is done to a run."""

    before: int
    after: int
    is_kill: bool = False  #: of one worker; `after` is what the run is filled up to

    @property
    def name(self) -> str:
        return f"{self.before}, kill -9" if self.is_kill else f"{self.before} to {self.after}"

    @property
    def kind(self) -> CostKind:
        return "growth" if self.after > self.before else "shrink"


KILL = Change(4, 4, is_kill=True)
#: Each ends at the size at which it began, so that it can be gone through again.
ROUNDS = {
    "small": (Change(2, 4), KILL, Change(4, 2)),
    "large": (Change(1, 8), Change(8, 1)),
    "hosts": (Change(2, 4), Change(4, 2)),
    "parts": (Change(2, 3), Change(3, 2), Change(2, 4), Change(4, 1), Change(1, 2)),
    "kill": (KILL,),
}


def measure(side: Side, changes: Sequence[Change], num_repeats: int) -> dict[str, list[Pause]]:
    """Put one run through all the changes, so often; what each cost, by its name.

    A rival that fails is measured as far as it came.
    """
    pauses: dict[str, list[Pause]] = {change.name: [] for change in changes}
    costs = CostTable()
    try:
        side.start(changes[0].before)
        wait_for_group(side, 0, changes[0].before, NUM_STEPS, LIMIT_S)
        for turn in range(num_repeats):
            for change in changes:
                pause = expecting(go_through(side, change, turn % change.before), change, costs, turn)
                print(f"  {side.name}, {change.name}: {pause.pause_s:.3f} s", file=sys.stderr, flush=True)
                pauses[change.name].append(pause)
    except SideFailed as failed:
        if side.name == OURS:
            raise
        print(f"{failed}; it is measured as far as it came", flush=True)
    finally:
        side.close()
    return pauses


def go_through(side: Side, change: Change, victim: int) -> Pause:
    """`victim`: the rank that is killed, if one is."""
    before = len(wait_for_group(side, 0, change.before, NUM_STEPS, LIMIT_S)) - 1
    if not change.is_kill:
        cause_s = time.monotonic()
        side.resize(change.after)
        history = wait_for_group(side, before + 1, change.after, NUM_STEPS, LIMIT_S)
        return pause_of(history, before, len(history) - 1, cause_s)
    cause_s = kill_worker(side, victim)
    history = wait_for_group(side, before + 1, None, NUM_STEPS, LIMIT_S)
    pause = pause_of(history, before, before + 1, cause_s)
    if history[-1].num_workers != change.after:
        side.settle(change.after)
        wait_for_group(side, len(history), change.after, NUM_STEPS, LIMIT_S)
    return pause


def expecting(pause: Pause, change: Change, costs: CostTable, turn: int) -> Pause:
    """With what the head would have expected of it, which then learns from it."""
    if change.is_kill:
        return pause
    kind = change.kind
    record = JobRecord(id="bench", spec=SPEC, submitted_s=0.0)
    expected_s = costs.expected_s(kind, SPEC, None, change.after) if turn else None
    costs.learn(kind, record, change.after, pause.pause_s, float(turn))
    return replace(pause, expected_s=expected_s)


def sides_across(link: Link) -> dict[str, Callable[[Case, Path], Side]]:
    return {
        RIVAL: lambda case, folder: TorchrunAcross(case, folder, link),
        OURS: lambda case, folder: SwellAcross(case, folder, link),
    }


def run(options: argparse.Namespace, folder: Path) -> list[Row]:
    sides = SIDES if options.hosts == 1 else sides_across(Link.of(options))
    rows = []
    for size in options.sizes:
        for optimizer in options.optimizers:
            for name in options.rounds:
                case = Case(size, optimizer)
                found = {
                    side: measure(
                        sides[side](case, folder / f"{case.label}-{name}-{side}"),
                        ROUNDS[name],
                        options.repeats,
                    )
                    for side in options.sides
                }
                for change in ROUNDS[name]:
                    pauses = {
                        side: pauses[change.name] for side, pauses in found.items() if pauses[change.name]
                    }
                    rows.append(row_of(size, optimizer, change.name, change.is_kill, pauses))
    return rows


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.resize", description=__doc__)
    for name, known in (("sizes", SIZES), ("optimizers", OPTIMIZERS), ("rounds", ROUNDS), ("sides", SIDES)):
        parser.add_argument(f"--{name}", nargs="+", choices=list(known), help="default: all of one host")
    parser.add_argument("--hosts", type=int, choices=(1, 2), default=1, help=f"2: {ACROSS}")
    add_options(parser)
    parser.add_argument("--repeats", type=int, default=3, help="times each change is made; 3")
    parser.add_argument("--json", type=Path, help="write all that was measured to this file")
    parser.add_argument("--keep", type=Path, help="a new folder for the logs; by default they are removed")
    options = parser.parse_args(arguments)
    on_one = {"sizes": USUAL, "optimizers": ["sgd", "adam"], "rounds": ["small", "large"]}
    chosen = {"sides": list(SIDES), **(on_one if options.hosts == 1 else ON_TWO_HOSTS)}
    parser.set_defaults(**chosen)
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    known = conditions()
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-resize-") as scratch:
        rows = run(options, options.keep or Path(scratch))
    known["minutes"] = round((time.monotonic() - begun_s) / 60, 1)
    console = Console(width=120)
    console.print(table_of(rows))
    if OURS in options.sides:
        console.print("What newcomers cost the steps before the change:", joiners_table_of(rows))
    for line in verdict_on(rows):
        console.print(line)
    console.print(f"Medians of {options.repeats}. {describe(known)}.")
    if options.json:
        write_json(options.json, {"conditions": known, "rows": [asdict(row) for row in rows]})


if __name__ == "__main__":
    main()
