"""`make bench-libraries`: a resize of a `transformers.Trainer` job, in live processes and by a restart."""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from benchmarks.conditions import conditions, describe, write_json
from benchmarks.training.pauses import Pause
from benchmarks.training.resize import Change, measure
from benchmarks.training.swell_side import SwellSide
from swell.model.job import Elasticity, EndCondition

SCRIPT = Path(__file__).parent.parent / "scripts" / "trainer.py"
CHANGES = (Change(2, 4), Change(4, 2))
#: Never reached.
EPOCHS = 10**6


class TrainerSide(SwellSide):
    """A job of the Trainer, which has no evaluation."""

    def __init__(self, folder: Path, elasticity: Elasticity) -> None:
        is_restart = elasticity is Elasticity.RESTART
        args = ("0", str(EPOCHS), str(folder), *(["{local_batch}"] if is_restart else []))
        super().__init__(folder, SCRIPT, args)
        self._spec = msgspec.structs.replace(
            self._spec, elasticity=elasticity, global_batch=64, end=EndCondition(steps=EPOCHS)
        )


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.library_resize", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="times each change is made; 3")
    parser.add_argument("--json", type=Path, help="write all that was measured to this file")
    options = parser.parse_args(words)
    known, found = conditions(), dict[str, dict[str, list[Pause]]]()
    with tempfile.TemporaryDirectory(prefix="bench-libraries-") as folder:
        for elasticity in (Elasticity.LIVE, Elasticity.RESTART):
            side = TrainerSide(Path(folder) / elasticity.value, elasticity)
            found[elasticity.value] = measure(side, CHANGES, options.repeats)
    for change in CHANGES:
        live, restart = (
            statistics.median(each.pause_s for each in found[name][change.name]) for name in found
        )
        print(f"Trainer, {change.name}: pause {live:.3f} s live, {restart:.1f} s by a restart")
    print(f"Medians of {options.repeats}. {describe(known)}.")
    if options.json:
        rows = {name: {at: [*map(asdict, each)] for at, each in one.items()} for name, one in found.items()}
        write_json(options.json, {"conditions": known, "rows": rows})


if __name__ == "__main__":
    main()
