"""`make bench-overlap`: steps a second of one job on two hosts, by how its gradients are summed."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from tests.machines.namespaces import INTERFACE

from benchmarks.conditions import conditions, describe, write_json
from benchmarks.training.problem import OPTIMIZERS, SIZES
from benchmarks.training.sides import POLL_S, Case, SideFailed
from benchmarks.training.two_hosts import OUT, SwellAcross

SCRIPT = Path(__file__).with_name("three_ways.py")
#: One worker on each host.
DEVICES = ("n0/0", "n1/0")
RESULT = "blocks.json"
LIMIT_S = 600.0
#: How `tc` is told a rate: what may be sent at once, and what waits for longer is dropped.
BURST, LATENCY = "256kb", "50ms"


@dataclass(frozen=True)
class Row:
    """One link."""

    link: str
    steps_per_s: dict[str, float]  #: by way of summing, of the median block
    ratios: dict[str, float]  #: to one piece after the backward pass: the median over neighbouring blocks


def measure(options: argparse.Namespace, rate: str | None, folder: Path) -> Row:
    """`rate`: of the link in each direction, as tc(8) spells it; None: as fast as it is."""
    side = SwellAcross(Case(options.size, options.optimizer), folder)
    try:
        if rate is not None:
            for machine in side.machines:
                shape = ("rate", rate, "burst", BURST, "latency", LATENCY)
                machine.run("tc", "qdisc", "add", "dev", INTERFACE, "root", "tbf", *shape)
        side.start_head()
        for index in range(len(side.machines)):
            side.join(index)
            side.await_offer(index)
        counts = ("--blocks", str(options.blocks), "--steps", str(options.steps))
        model = ("--size", options.size, "--optimizer", options.optimizer)
        side.launch_on(DEVICES, SCRIPT, (*model, *counts, "--out", f"{OUT}/{RESULT}"))
        blocks_s = await_result(side)
    finally:
        side.close()
    return row_of(rate or "plain", options.steps, blocks_s)


def await_result(side: SwellAcross) -> dict[str, Sequence[float]]:
    paths = [machine.outside(f"{OUT}/{RESULT}") for machine in side.machines]
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        for path in filter(os.path.exists, paths):
            if text := path.read_text():
                found: dict[str, Sequence[float]] = json.loads(text)
                return found
        side.check()
        if time.monotonic() > deadline_s:
            raise SideFailed(f"no result within {LIMIT_S:g} s; the logs are in {side.folder}")
        time.sleep(POLL_S)


def row_of(link: str, num_steps: int, blocks_s: Mapping[str, Sequence[float]]) -> Row:
    whole_s = blocks_s["one piece"]
    return Row(
        link,
        {way: num_steps / statistics.median(found_s) for way, found_s in blocks_s.items()},
        {
            way: statistics.median(one / other for one, other in zip(whole_s, found_s, strict=True))
            for way, found_s in blocks_s.items()
        },
    )


def table_of(rows: Sequence[Row]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    table.add_column("link")
    for way in rows[0].steps_per_s:
        table.add_column(f"{way}\n(steps/s)", justify="right")
    for way in list(rows[0].ratios)[1:]:
        table.add_column(f"{way} /\none piece", justify="right")
    for row in rows:
        speeds = [f"{per_s:.3f}" for per_s in row.steps_per_s.values()]
        table.add_row(row.link, *speeds, *(f"{ratio:.2f}" for ratio in list(row.ratios.values())[1:]))
    return table


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.overlap", description=__doc__)
    parser.add_argument("--size", choices=list(SIZES), default="25M")
    parser.add_argument("--optimizer", choices=list(OPTIMIZERS), default="sgd")
    parser.add_argument("--rates", nargs="+", default=["plain", "1gbit"], help="of the link, for tc(8)")
    parser.add_argument("--blocks", type=int, default=4, help="of each of the three, in turn; 4")
    parser.add_argument("--steps", type=int, default=4, help="in a block; 4")
    parser.add_argument("--json", type=Path, help="write all that was measured to this file")
    parser.add_argument("--keep", type=Path, help="a new folder for the logs; by default they are removed")
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    known = conditions()
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-overlap-") as scratch:
        folder = options.keep or Path(scratch)
        rows = [measure(options, None if rate == "plain" else rate, folder / rate) for rate in options.rates]
    known["minutes"] = round((time.monotonic() - begun_s) / 60, 1)
    console = Console(width=120)
    console.print(f"{options.size} {options.optimizer}, one worker on each of two hosts:", table_of(rows))
    console.print(f"Medians of {options.blocks} blocks of {options.steps} steps. {describe(known)}.")
    if options.json:
        write_json(options.json, {"conditions": known, "rows": [asdict(row) for row in rows]})


if __name__ == "__main__":
    main()
