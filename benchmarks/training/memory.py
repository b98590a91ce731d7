"""Memory of a worker while it trains, with a state that is whole, and one that is divided."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.conditions import conditions, describe, write_json
from benchmarks.training.problem import OPTIMIZERS, SIZES
from benchmarks.training.sides import TRAIN, Case, lines_of, wait_for_group
from benchmarks.training.swell_side import SwellSide

NUM_STEPS = 5
LIMIT_S = 300.0


@dataclass(frozen=True)
class MemoryRow:
    """One way to divide a state, on so many workers."""

    size: str
    optimizer: str
    num_workers: int
    mean_bytes: float  #: that a worker has for itself, after a few steps
    largest_bytes: int


def measure(size: str, optimizer: str, num_workers: int, folder: Path) -> MemoryRow:
    case = Case(size, optimizer)
    side = SwellSide(folder / case.label, TRAIN, case.args(folder / case.label))
    try:
        side.start(num_workers)
        wait_for_group(side, 0, num_workers, NUM_STEPS, LIMIT_S)
        pids = {line.pid for line in lines_of(side)}
        found = [psutil.Process(pid).memory_full_info().uss for pid in pids]
    finally:
        side.close()
    return MemoryRow(size, optimizer, num_workers, statistics.mean(found), max(found))


def table_of(rows: Sequence[MemoryRow]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    table.add_column("model")
    for head in ("workers", "a worker, mean\n(MB)", "the largest\n(MB)"):
        table.add_column(head, justify="right")
    for row in rows:
        numbers = (f"{row.mean_bytes / 1e6:.0f}", f"{row.largest_bytes / 1e6:.0f}")
        table.add_row(f"{row.size} {row.optimizer}", str(row.num_workers), *numbers)
    return table


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.memory", description=__doc__)
    parser.add_argument("--size", choices=list(SIZES), default="100M")
    ways = ["adam", "adam-sharded", "adam-blocks", "adam-blocks-mirrored"]
    parser.add_argument("--optimizers", nargs="+", choices=list(OPTIMIZERS), default=ways)
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--json", type=Path, help="write all that was measured to this file")
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    known = conditions()
    rows = []
    for optimizer in options.optimizers:
        for num_workers in options.workers:
            with tempfile.TemporaryDirectory(prefix="bench-memory-") as scratch:
                rows.append(measure(options.size, optimizer, num_workers, Path(scratch)))
            print(rows[-1], file=sys.stderr, flush=True)
    console = Console(width=120)
    console.print(table_of(rows))
    console.print(f"{describe(known)}.")
    if options.json:
        write_json(options.json, {"conditions": known, "rows": [asdict(row) for row in rows]})


if __name__ == "__main__":
    main()
