"""Inputs of BFTrainer's evaluation: lists of trainers, measured throughput, and idle nodes of a machine."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.errors import InvalidInput
from swell.sim.pool import Pool
from swell.sim.pool_file import read_names, read_pool

FOLDER = "bftrainer"
POOL, SOME_NODES = f"{FOLDER}/summit-idle-intervals-8d.csv.gz", f"{FOLDER}/first-150-nodes.txt"
THROUGHPUT = f"{FOLDER}/imagenet-throughput.csv"
HPO, FEW_HPO = f"{FOLDER}/hps-shufflenet-jobs-1000J.csv", f"{FOLDER}/hps-shufflenet-jobs-10J.csv"
DIVERSE = f"{FOLDER}/ImageNet-imgps-jobs-1001J.csv"
ALL_INPUTS = (POOL, SOME_NODES, THROUGHPUT, HPO, FEW_HPO, DIVERSE)

#: Columns of the files.
NAMES = ("job", "model")
CURVE_COLUMNS = ("model", "nodes", "images_per_s")
TRAINER_COLUMNS = (
    *NAMES,
    "submit_s",
    "min_nodes",
    "max_nodes",
    "up_cost_s",
    "down_cost_s",
    "total_images",
)

#: Names of the models as the paper writes them, in the order of its Table 2: by throughput.
MODELS = {
    "AlexNet": "AlexNet",
    "resnet18": "ResNet18",
    "mnasnet1": "MnasNet",
    "mobilenet": "MobileNets",
    "shufflenet": "ShuffleNet",
    "vgg16": "VGG-16",
    "DenseNet": "DenseNet",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Trainer:
    """A job of the evaluation. Times are seconds of the log."""

    id: str
    model: str
    submit_s: float
    least: int  #: nodes
    most: int
    growth_s: float  #: R_up
    shrink_s: float  #: R_dw
    images: float  #: that it has to process
    rates: FloatArray  #: (most + 1,) images/s on n nodes, by n; 0 where it may not have so many
    loss_s: float | None = None  #: of nodes that leave; None: as a shrink

    @cached_property
    def sizes(self) -> IntArray:
        """Numbers of nodes that it may have, ascending."""
        return np.arange(self.least, self.most + 1, dtype=np.int64)

    @property
    def preemption_s(self) -> float:
        """What it costs that nodes leave."""
        return self.shrink_s if self.loss_s is None else self.loss_s

    def with_costs(self, factor: float, with_losses: bool = True) -> Trainer:
        """The same, with so many times the cost of each change; of nodes that leave only `with_losses`."""
        loss_s = None if with_losses else self.preemption_s
        return replace(self, growth_s=factor * self.growth_s, shrink_s=factor * self.shrink_s, loss_s=loss_s)


@lru_cache(maxsize=1)
def read_log(data: Path) -> Pool:
    """Idle nodes of the whole machine, over eight days."""
    return read_pool(data / POOL)


def read_some_names(data: Path) -> tuple[str, ...]:
    return read_names(data / SOME_NODES)


def read_trainers(data: Path, name: str) -> tuple[Trainer, ...]:
    """A list of trainers, by submission. Raises InvalidInput."""
    curves = _curves(data / THROUGHPUT)
    trainers = []
    for row in _rows(data / name, TRAINER_COLUMNS):
        if row["model"] not in curves:
            raise InvalidInput(f"{data / THROUGHPUT} has no throughput of model {row['model']!r} of {name}")
        most = int(row["max_nodes"])
        rates = np.interp(np.arange(most + 1), *curves[row["model"]])
        rates[: int(row["min_nodes"])] = 0.0
        trainers.append(
            Trainer(
                id=row["job"],
                model=row["model"],
                submit_s=float(row["submit_s"]),
                least=int(row["min_nodes"]),
                most=most,
                growth_s=float(row["up_cost_s"]),
                shrink_s=float(row["down_cost_s"]),
                images=float(row["total_images"]),
                rates=rates,
            )
        )
    return tuple(sorted(trainers, key=lambda trainer: trainer.submit_s))


def of_model(trainers: tuple[Trainer, ...], sample: Trainer) -> tuple[Trainer, ...]:
    """The same submissions, each of the sample's model."""
    return tuple(
        replace(sample, id=trainer.id, submit_s=trainer.submit_s, images=trainer.images)
        for trainer in trainers
    )


def _curves(file: Path) -> Mapping[str, tuple[list[int], list[float]]]:
    """Model -> measured numbers of nodes and images/s; between two of them it is a straight line (Eq. 12)."""
    curves: dict[str, tuple[list[int], list[float]]] = {}
    for row in _rows(file, CURVE_COLUMNS):
        sizes, rates = curves.setdefault(row["model"], ([], []))
        sizes.append(int(row["nodes"]))
        rates.append(float(row["images_per_s"]))
    return curves


def _rows(file: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """All columns but names are numbers. Raises InvalidInput."""
    try:
        with file.open(newline="", encoding="utf-8") as text:
            rows = list(csv.DictReader(text))
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror or error}") from error
    for number, row in enumerate(rows, start=2):
        for column in columns:
            cell = row.get(column)
            if not cell or (column not in NAMES and not _is_number(cell)):
                raise InvalidInput(
                    f"{file}, line {number}: {column} is {cell!r}; each row has {', '.join(columns)}"
                )
    return rows


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False
