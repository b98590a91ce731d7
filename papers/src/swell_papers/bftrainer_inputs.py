"""Inputs of BFTrainer's evaluation: trainers with measured throughput, and the idle nodes of Summit's log."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.errors import InvalidInput
from swell.sim.pool import HOUR_S, NodeInterval, Pool, read_names, read_pool
from swell_papers.experiment import Claim, Measure, Picture, Study

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
        stay = (NodeInterval(f"n{number}", 0.0, span_s) for number in range(nodes))
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


# Section 2.1: how long the nodes of the log stay idle

DAY_S = 24.0 * HOUR_S
SUMMIT_NODES = 4_608
WHOLE, NUM_DAYS = "all", 7
#: Of Figure 1.
MINUTES = (1, 2, 5, 10, 20, 30, 60, 120, 360)
TRUTH = "eight days of Summit's idle nodes, all nodes of the log"


def part(data: Path, from_s: float, length_s: float) -> Pool:
    """The log for so long, as far as there is, from so long after its beginning."""
    log = read_log(data)
    begin_s = min(one.start_s for one in log.intervals) + from_s
    return log.within(begin_s, min(begin_s + length_s, UNTIL_S))


def fragments(data: Path, minutes: float) -> tuple[float, float, float]:
    """% of fragments that are no longer, their % of node-time, and how many minutes more the others last."""
    idle_min = np.array([one.end_s - one.start_s for one in part(data, 0.0, UNTIL_S).intervals]) / 60.0
    is_short = idle_min <= minutes
    share = float(idle_min[is_short].sum() / idle_min.sum())
    return 100.0 * float(is_short.mean()), 100.0 * share, float((idle_min[~is_short] - minutes).mean())


def per_h(pool: Pool, moments_s: Iterable[float]) -> float:
    """Distinct moments an hour, without the beginning and the end."""
    last_s = pool.last_s
    return sum(0.0 < at_s < last_s for at_s in set(moments_s)) / (last_s / HOUR_S)


COUNT, TIME = "no longer, % of fragments", "no longer, % of node-time"
FIGURE_1 = Study[tuple[float, float, float]](
    name="fig1",
    title="Figure 1: how long nodes stay idle",
    truth=TRUTH,
    cases=lambda context: {(str(time),): partial(fragments, context.data, time) for time in MINUTES},
    keys=("minutes",),
    measures=[
        Measure(COUNT, lambda told: told[0], 1),
        Measure(TIME, lambda told: told[1], 1),
        Measure("the others stay so many minutes more", lambda told: told[2], 0),
    ],
    pictures=[Picture(measures=(COUNT, TIME), x="minutes", kind="lines")],
    claims=[
        Claim(text="ten minutes or less, % of fragments", figure=58.0, of=lambda found: found["10",][0]),
        Claim(text="ten minutes or less, % of node-time", figure=10.0, of=lambda found: found["10",][1]),
    ],
    needs=(POOL,),
)
#: What Table 1 prints of Summit (INC/h, DEC/h, eq-Nodes, Ratio), and each of a pool.
TABLE_1: dict[float, Measure[Pool]] = {
    41.7: Measure("joins an hour", lambda pool: per_h(pool, (one.start_s for one in pool.intervals)), 1),
    28.6: Measure("leaves an hour", lambda pool: per_h(pool, (one.end_s for one in pool.intervals)), 1),
    524.0: Measure("idle nodes, mean", lambda pool: pool.equivalent_nodes(0.0, pool.last_s), 0),
    11.1: Measure(
        "% of the machine", lambda pool: 100.0 * pool.equivalent_nodes(0.0, pool.last_s) / SUMMIT_NODES, 1
    ),
}
FIGURE_6 = Study[Pool](
    name="fig6",
    title="Table 1 and Figure 6: idle nodes, over all the log and day by day",
    truth=TRUTH,
    cases=lambda context: {
        (WHOLE,): partial(part, context.data, 0.0, UNTIL_S),
        **{(str(day + 1),): partial(part, context.data, day * DAY_S, DAY_S) for day in range(NUM_DAYS)},
    },
    keys=("day",),
    measures=tuple(TABLE_1.values()),
    pictures=[Picture(measures=("idle nodes, mean",), x="day")],
    claims=[
        Claim(text=one.name, figure=printed, of=lambda found, of=one.of: found.mean(of, WHOLE))  # type: ignore[misc]
        for printed, one in TABLE_1.items()
    ],
    needs=(POOL,),
)
