"""`make bench-ray`: one job on four Ray nodes, under Ray Train's elastic mode and under Swell."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from tests.ray.cluster import why_not

from benchmarks.conditions import ROOT, conditions, write_json
from benchmarks.ray import settings
from benchmarks.ray.changes import CHANGES, Cost, Course
from benchmarks.ray.hand_over import HandOver, hand_over
from benchmarks.ray.page import table_of
from benchmarks.ray.ray_train_side import RayTrainSide
from benchmarks.ray.rows import OURS, RIVAL, bars_of, row_of
from benchmarks.ray.sides import Side
from benchmarks.ray.site import CHECKS, NUM_NODES, Site
from benchmarks.ray.swell_side import SwellSide
from benchmarks.training.problem import OPTIMIZERS, SIZES
from benchmarks.training.sides import Case

SIDES: dict[str, Callable[[Site, Case, Path], Side]] = {RIVAL: RayTrainSide, OURS: SwellSide}


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one side."""

    costs: dict[str, list[Cost]]  #: by change
    hand_overs: list[HandOver]  #: of ours


def measure(name: str, case: Case, folder: Path, num_rounds: int, seed: int) -> Measured:
    """One side on a cluster of its own; `folder` is made."""
    folder.mkdir(parents=True)
    with Site(folder) as site:
        side = SIDES[name](site, case, folder)
        try:
            course = Course(site, side, seed)
            costs = course.run(num_rounds)
            if not isinstance(side, SwellSide):
                return Measured(costs, [])  # it leaves a device when its node goes
            return Measured(costs, [hand_over(site, side, course.up) for _ in range(num_rounds)])
        finally:
            side.close()


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ray", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="25M")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adam")
    parser.add_argument("--sides", nargs="+", choices=list(SIDES), default=list(SIDES), help="default: both")
    parser.add_argument("--rounds", type=int, default=3, help="times that all changes are made; 3")
    parser.add_argument("--seed", type=int, default=0, help="of which nodes go; 0")
    parser.add_argument("--json", type=Path, help="write all that was measured to this file")
    parser.add_argument(
        "--keep", type=Path, help="a new folder, outside of /tmp, for logs and checkpoints; else they go"
    )
    return parser.parse_args(arguments)


def lack() -> str:
    """What is missing here; empty: nothing."""
    if importlib.util.find_spec("ray") and importlib.util.find_spec("pyarrow") is None:
        return "Ray Train is not installed: pip install -c constraints.txt 'ray[train]'"
    return why_not()


def main() -> None:
    options = parse()
    if missing := lack():
        sys.exit(f"there can be no Ray cluster here: {missing}")
    known = conditions() | {
        "ray": importlib.metadata.version("ray"),
        "size": options.size,
        "optimizer": options.optimizer,
        "rounds": options.rounds,
        "seed": options.seed,
    }
    begun_s = time.monotonic()
    case = Case(options.size, options.optimizer)
    folder = options.keep or _scratch()
    try:
        found = {
            name: measure(name, case, folder / name.replace(" ", "-"), options.rounds, options.seed)
            for name in options.sides
        }
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)  # the machines that wrote to it are gone
    known["minutes"] = round((time.monotonic() - begun_s) / 60, 1)
    rows = [row_of(change, {name: found[name].costs[change] for name in options.sides}) for change in CHANGES]
    hand_overs = [each for measured in found.values() for each in measured.hand_overs]
    told = {
        "conditions": known,
        "settings": {
            "nodes": NUM_NODES,
            "health_checks": CHECKS.settings,
            "ray_train_environment": settings.ENVIRON,
            "elastic_resize_monitor_interval_s": settings.MONITOR_S,
            "max_failures": settings.MAX_FAILURES,
            "ray_train_checkpoint_steps": settings.CHECKPOINT_STEPS,
            "swell_checkpoint_interval_s": settings.CHECKPOINT_INTERVAL_S,
            "notice_s": settings.NOTICE_S,
        },
        "rows": [asdict(row) for row in rows],
        "hand_overs": [asdict(each) for each in hand_overs],
        "bars": [asdict(bar) for bar in bars_of(rows, hand_overs)],
    }
    if options.json:
        write_json(options.json, told)
    Console(width=140).print(Markdown(table_of(told)))


def _scratch() -> Path:
    """Machines have a /tmp of their own, so it is here."""
    (ROOT / "out").mkdir(exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="bench-ray-", dir=ROOT / "out"))


if __name__ == "__main__":
    main()
