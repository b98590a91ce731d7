"""Inputs of BFTrainer's evaluation: trainers with measured throughput, and idle nodes of a machine."""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.errors import InvalidInput
from swell.sim.pool import IdleInterval, Pool, read_names, read_pool

FOLDER = "bftrainer"
POOL, SOME_NODES = f"{FOLDER}/summit-idle-intervals-8d.csv.gz", f"{FOLDER}/first-150-nodes.txt"
THROUGHPUT = f"{FOLDER}/imagenet-throughput.csv"
HPO, DIVERSE = f"{FOLDER}/hps-shufflenet-jobs-1000J.csv", f"{FOLDER}/ImageNet-imgps-jobs-1001J.csv"
ALL_INPUTS = (POOL, SOME_NODES, THROUGHPUT, HPO, DIVERSE)
#: The first trainer is submitted then, in seconds of the log, and the log ends.
FROM_S, UNTIL_S = 72_743.0, 691_186.0
#: Nodes on which one BFTrainer works: drawn ones of the log (section 4.3), or those of an open replayer.
DRAWN, FIRST = "1,024 drawn nodes", "150 nodes"
#: So many of the log are drawn.
NUM_DRAWN = 1_024

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


class Trainer(msgspec.Struct, frozen=True, kw_only=True):
    """A job of the evaluation: a row of a list of trainers."""

    job: str
    model: str
    submit_s: float  #: since the first one was submitted
    min_nodes: int
    max_nodes: int
    up_cost_s: float  #: R_up
    down_cost_s: float  #: R_dw
    total_images: float
    curve: tuple[float, ...] = ()  #: images/s on `min_nodes`, and so on up to `max_nodes`

    @property
    def sizes(self) -> IntArray:
        """(K,) numbers of nodes that it may have."""
        return np.arange(self.min_nodes, self.max_nodes + 1, dtype=np.int64)

    @property
    def rates(self) -> FloatArray:
        """(K,) images/s."""
        return np.array(self.curve)


class MeasuredThroughput(msgspec.Struct, frozen=True):
    """A measured throughput; between two of them it is on a straight line (Eq. 12)."""

    model: str
    nodes: int
    images_per_s: float


Row = TypeVar("Row", Trainer, MeasuredThroughput)


@lru_cache(maxsize=1)
def read_log(data: Path) -> Pool:
    """Idle nodes of the whole machine, over eight days."""
    return read_pool(data / POOL)


def nodes_of(data: Path, seed: int, nodes: str | int, span_s: float) -> Pool:
    """The nodes of this name, for so long from the first trainer's coming on.

    Args:
        nodes: or so many (int) that stay.
    """
    if isinstance(nodes, int):
        stay = (IdleInterval(f"n{number}", 0.0, span_s) for number in range(nodes))
        return Pool(tuple(stay), "nodes that stay")
    pool = read_log(data)
    if nodes == FIRST:
        pool = pool.of_nodes(read_names(data / SOME_NODES))
    else:
        names = sorted({one.node for one in pool.intervals})
        random = np.random.default_rng(seed)
        pool = pool.of_nodes(random.choice(names, min(NUM_DRAWN, len(names)), replace=False).tolist())
    return pool.within(FROM_S, FROM_S + span_s)


def read_trainers(data: Path, name: str, model: str = "", cost_factor: float = 1.0) -> list[Trainer]:
    """A list of trainers, by submission. Raises InvalidInput.

    Args:
        model: of all of them; empty: each its own.
        cost_factor: changes cost so many times what the list says.
    """
    curves: dict[str, dict[int, float]] = {}
    for point in _rows(data / THROUGHPUT, MeasuredThroughput):
        curves.setdefault(point.model, {})[point.nodes] = point.images_per_s
    trainers = []
    for row in _rows(data / name, Trainer):
        if (curve := curves.get(model or row.model)) is None:
            raise InvalidInput(f"{data / THROUGHPUT} has no throughput of model {row.model!r} of {name}")
        changed = msgspec.structs.replace(
            row,
            model=model or row.model,
            submit_s=row.submit_s - FROM_S,
            up_cost_s=cost_factor * row.up_cost_s,
            down_cost_s=cost_factor * row.down_cost_s,
            curve=tuple(np.interp(row.sizes, list(curve), list(curve.values())).tolist()),
        )
        trainers.append(changed)
    return sorted(trainers, key=lambda trainer: trainer.submit_s)


def _rows(file: Path, kind: type[Row]) -> list[Row]:
    """Raises InvalidInput, with the line that breaks a rule."""
    rows: list[Row] = []
    try:
        with file.open(newline="", encoding="utf-8") as text:
            rows.extend(msgspec.convert(cells, kind, strict=False) for cells in csv.DictReader(text))
    except (OSError, msgspec.ValidationError) as error:
        raise InvalidInput(f"{file}, line {len(rows) + 2}: {error}; correct it") from error
    return rows
