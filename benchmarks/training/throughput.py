"""`make bench-throughput`: samples a second with `swell.train`, beside plain DistributedDataParallel."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from tests.machines.links import Link, add_options

from benchmarks.conditions import conditions, describe, write_json
from benchmarks.training.problem import NUM_PROCESSES, OPTIMIZERS, SIZES, USUAL
from benchmarks.training.sides import POLL_S, Case, SideFailed
from benchmarks.training.swell_side import SwellSide
from benchmarks.training.train import GLOBAL_BATCH
from benchmarks.training.two_hosts import OUT, SwellAcross

SCRIPT = Path(__file__).with_name("side_by_side.py")
LIMIT_S = 1200.0
#: What elasticity may cost of the throughput.
BAR_SHARE = 0.03


@dataclass(frozen=True)
class Row:
    """One model on so many workers."""

    size: str
    optimizer: str
    num_workers: int
    swell_per_s: float  #: samples, of the median block
    ddp_per_s: float
    ratio: float  #: of samples a second, Swell to DDP: the median over pairs of neighbouring blocks
    spread: float  #: of the middle half of these ratios


def measure(options: argparse.Namespace, size: str, optimizer: str, num_workers: int, folder: Path) -> Row:
    args = ("--size", size, "--optimizer", optimizer)
    counts = ("--blocks", str(options.blocks), "--steps", str(options.steps))
    own = folder / f"{size}-{optimizer}-{num_workers}"
    if options.hosts > 1:
        blocks_s = run_across(own, num_workers, (*args, *counts), Link.of(options))
    else:
        blocks_s = run_here(own, num_workers, (*args, *counts))
    return row_of(size, optimizer, num_workers, options.steps * GLOBAL_BATCH, blocks_s)


def run_here(folder: Path, num_workers: int, args: Sequence[str]) -> dict[str, list[float]]:
    """Seconds of the blocks of each, with all workers on this machine."""
    out = folder.with_suffix(".json")
    num = NUM_PROCESSES.get(args[args.index("--optimizer") + 1], 1)
    side = SwellSide(folder, SCRIPT, (*args, "--out", str(out)), num)
    try:
        side.start(num_workers)
        side.await_end(LIMIT_S)
    finally:
        side.close()
    found: dict[str, list[float]] = json.loads(out.read_text())
    return found


def run_across(folder: Path, num_workers: int, args: Sequence[str], link: Link) -> dict[str, list[float]]:
    """The same with half of the workers on another machine, each machine behind such a link."""
    side = SwellAcross(Case("", ""), folder, link)
    half = num_workers // 2
    devices = tuple(f"n{host}/{device}" for host in range(2) for device in range(half))
    out = f"{OUT}/blocks.json"
    try:
        side.start_hosts()
        side.launch_on(devices, SCRIPT, (*args, "--out", out))
        written = side.machines[0].outside(out)
        limit_s = time.monotonic() + LIMIT_S
        while not written.exists():
            side.check()
            if time.monotonic() > limit_s:
                raise SideFailed(f"swell: no end within {LIMIT_S:g} s; its logs are in {folder}")
            time.sleep(POLL_S)
        found: dict[str, list[float]] = json.loads(written.read_text())
        return found
    finally:
        side.close()


def row_of(
    size: str, optimizer: str, num_workers: int, num_samples: int, blocks_s: Mapping[str, Sequence[float]]
) -> Row:
    """`num_samples` of a block; `blocks_s`: of `swell` and `ddp`, what each took."""
    swell_s, ddp_s = blocks_s["swell"], blocks_s["ddp"]
    ratios = [theirs_s / ours_s for ours_s, theirs_s in zip(swell_s, ddp_s, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    return Row(
        size,
        optimizer,
        num_workers,
        num_samples / statistics.median(swell_s),
        num_samples / statistics.median(ddp_s),
        statistics.median(ratios),
        high - low,
    )


def table_of(rows: Sequence[Row]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    table.add_column("model")
    for head in ("workers", "DDP\n(samples/s)", "swell\n(samples/s)", "swell/DDP", "middle half\nof ratios"):
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(
            f"{row.size} {row.optimizer}",
            str(row.num_workers),
            f"{row.ddp_per_s:.1f}",
            f"{row.swell_per_s:.1f}",
            f"{row.ratio:.3f}",
            f"{row.spread:.3f}",
        )
    return table


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.throughput", description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=USUAL)
    parser.add_argument("--optimizers", nargs="+", choices=list(OPTIMIZERS), default=["adam"])
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--blocks", type=int, default=30, help="of each of the two, in turn; 30")
    parser.add_argument("--steps", type=int, default=5, help="in a block; 5")
    parser.add_argument("--hosts", type=int, choices=(1, 2), default=1, help="namespaces of this machine; 1")
    add_options(parser)
    parser.add_argument("--json", type=Path, help="write all that was measured to this file")
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    known = conditions()
    begun_s = time.monotonic()
    rows = []
    with tempfile.TemporaryDirectory(prefix="bench-throughput-") as scratch:
        for size in options.sizes:
            for optimizer in options.optimizers:
                for num_workers in options.workers:
                    rows.append(measure(options, size, optimizer, num_workers, Path(scratch)))
                    print(rows[-1], file=sys.stderr, flush=True)
    known["minutes"] = round((time.monotonic() - begun_s) / 60, 1)
    console = Console(width=120)
    console.print(table_of(rows))
    console.print(f"Wanted: swell/DDP of {1 - BAR_SHARE:g} or more. {describe(known)}.")
    if options.json:
        write_json(options.json, {"conditions": known, "rows": [asdict(row) for row in rows]})


if __name__ == "__main__":
    main()
