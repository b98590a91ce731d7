"""What a checkpoint takes from training: written behind it, and written while it stands still.

One worker trains, and its state is saved every few steps, in turn in the one way and in the other. Memory is
the peak of a process for each way.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.utils.data import TensorDataset

from benchmarks.conditions import conditions, describe, write_json
from benchmarks.training.problem import OPTIMIZERS, SIZES, make_problem
from benchmarks.training.train import GLOBAL_BATCH
from swell.train.state.checkpoint import CheckpointStore
from swell.train.state.train_state import TrainState

WAYS = ("behind training", "training stands still")
STEPS_BETWEEN = 5


@dataclass(frozen=True)
class SaveRow:
    """One save."""

    way: str
    pause_s: float  #: no step began
    slowed_s: float  #: steps took longer in all while it was written, against the median of the others
    written_s: float  #: from its begin until it was safe on disk
    num_bytes: int


class SimGang:
    """A model in training, and its checkpoints."""

    def __init__(self, size: str, optimizer: str, folder: Path) -> None:
        torch.set_num_threads(1)
        model, self._optimizer, data = make_problem(size, optimizer)
        self._model, self._loss_of = model, nn.CrossEntropyLoss()
        self._data = cycle(_batches(data))
        self.state = TrainState(model, self._optimizer, None, {})
        self.checkpoints = CheckpointStore(folder, 2, 0.0)
        self.step()

    def step(self) -> float:
        """Seconds of one step."""
        begun_s = time.perf_counter()
        x, y = next(self._data)
        self._optimizer.zero_grad()
        self._loss_of(self._model(x), y).backward()
        self._optimizer.step()
        self.state.steps += 1
        return time.perf_counter() - begun_s

    def make_room(self) -> None:
        """The buffers are made behind training, too, before the first save."""
        self.checkpoints.begin(self.state)
        self.checkpoints.wait()

    def save(self, way: str) -> SaveRow:
        steps_s = statistics.median(self.step() for _ in range(STEPS_BETWEEN))
        begun_s = time.perf_counter()
        path = self.checkpoints.begin(self.state) if way == WAYS[0] else self.checkpoints.save(self.state)
        pause_s, slowed_s = time.perf_counter() - begun_s, 0.0
        while path is None:
            slowed_s += self.step() - steps_s
            path = self.checkpoints.take()
        return SaveRow(way, pause_s, slowed_s, time.perf_counter() - begun_s, path.stat().st_size)


def _batches(data: TensorDataset) -> list[tuple[torch.Tensor, ...]]:
    return list(zip(*(tensor.split(GLOBAL_BATCH) for tensor in data.tensors), strict=True))


def peak_bytes(size: str, optimizer: str, way: str) -> int:
    """Memory of a process that has saved twice."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as scratch,
        multiprocessing.get_context("spawn").Pool(1) as pool,
    ):
        return pool.apply(_peak_bytes, (size, optimizer, way, Path(scratch)))


def _peak_bytes(size: str, optimizer: str, way: str, folder: Path) -> int:
    training = SimGang(size, optimizer, folder)
    if way == WAYS[0]:
        training.make_room()
    for _ in range(2):
        training.save(way)
    # Not `getrusage`: its peak begins with that of the process that started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def table_of(rows: Sequence[SaveRow], step_s: float, peaks: dict[str, int]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    table.add_column("a save")
    heads = (
        "pause (ms)\nmedian",
        "\nlongest",
        "steps slower\nmedian (ms)",
        "pause of\na step",
        "on disk after\n(s)",
        "bytes",
        "peak\n(MB)",
    )
    for head in heads:
        table.add_column(head, justify="right")
    for way in WAYS:
        of = [row for row in rows if row.way == way]

        def median(figure: Callable[[SaveRow], float], of: Sequence[SaveRow] = of) -> float:
            return statistics.median(map(figure, of))

        longest_s = max(row.pause_s for row in of)
        table.add_row(
            way,
            f"{1e3 * median(lambda row: row.pause_s):.1f}",
            f"{1e3 * longest_s:.1f}",
            f"{1e3 * median(lambda row: row.slowed_s):.0f}",
            f"{longest_s / step_s:.0%}",
            f"{median(lambda row: row.written_s):.2f}",
            str(of[-1].num_bytes),
            f"{peaks[way] / 1e6:.0f}",
        )
    return table


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.checkpoint", description=__doc__)
    parser.add_argument("--size", choices=list(SIZES), default="25M")
    parser.add_argument("--optimizer", choices=list(OPTIMIZERS), default="adam")
    parser.add_argument("--saves", type=int, default=10, help="in each way")
    parser.add_argument("--json", type=Path, help="write all that was measured to this file")
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    known = conditions()
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-", dir=".") as scratch:
        training = SimGang(options.size, options.optimizer, Path(scratch))
        training.make_room()
        rows = [training.save(way) for _ in range(options.saves) for way in WAYS]
        step_s = statistics.median(training.step() for _ in range(2 * STEPS_BETWEEN))
    peaks = {way: peak_bytes(options.size, options.optimizer, way) for way in WAYS}
    console = Console(width=120)
    console.print(table_of(rows, step_s, peaks))
    console.print(f"{options.size} {options.optimizer}, a step {step_s:.3f} s; {describe(known)}.")
    if options.json:
        content = {
            "conditions": known,
            "step_s": step_s,
            "peak_bytes": peaks,
            "rows": [asdict(row) for row in rows],
        }
        write_json(options.json, content)


if __name__ == "__main__":
    main()
