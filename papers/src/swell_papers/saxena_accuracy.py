"""Accuracy under a batch that changes while a model trains (Saxena et al., section II-C and Figure 2)."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context

import msgspec
import numpy as np

from swell import __version__
from swell.model.errors import InvalidInput
from swell_papers.experiment import Context
from swell_papers.findings import Cell, Chart, Findings, Part, Table, chart, findings, panel, table

#: Modules that training imports.
NEEDED = ("torch", "sklearn")
#: The batch that the learning rate was chosen for, and the range in which the batch changes. The paper's are
#: 512, and 128 to 1024.
BASE, LEAST, MOST = 64, 16, 128
#: Rules of the learning rate, by what the table calls them; the others are the names of `train.scaling`.
RULES = {"fixed": "none", "linear": "linear", "square root": "square_root", "AdaScale": "adascale"}
#: Final accuracies that differ by no more are similar, in percentage points (section II-C).
SIMILAR_POINTS = 0.5
#: In how many epochs of a run the batch changes, for a pattern that draws them.
NUM_DRAWN = 6


class AccuracyRun(msgspec.Struct, frozen=True, kw_only=True):
    """One training run."""

    batches: list[int]  #: samples a step, in each epoch
    rule: str  #: of `RULES`, as `train.scaling` calls it
    seed: int


class AccuracyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    accuracy: list[float]  #: share of held-out pictures that are read right, after each epoch
    updates: int


#: Trains all of these and tells how many are done.
Trainer = Callable[[Sequence[AccuracyRun], Callable[[int], None]], list[AccuracyResult]]


def train_all(runs: Sequence[AccuracyRun], advance: Callable[[int], None]) -> list[AccuracyResult]:
    """Train on all cores of this machine, a process for each. Raises InvalidInput: a library is missing."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise InvalidInput(
            f"fig2 trains a model and lacks {' and '.join(missing)}; "
            f"{sys.executable} -m pip install 'swell[demo]'"
        )
    num_processes = min(len(os.sched_getaffinity(0)), len(runs))
    with ProcessPoolExecutor(num_processes, get_context("spawn")) as pool:
        waiting = [pool.submit(_train, run) for run in runs]
        for num, _ in enumerate(as_completed(waiting), 1):
            advance(num)
        return [one.result() for one in waiting]


def _train(run: AccuracyRun) -> AccuracyResult:
    """Train in this process, which alone imports PyTorch."""
    import torch

    from swell_papers.changing_batch import train_once

    torch.set_num_threads(1)
    return msgspec.convert(train_once(run.batches, run.rule, run.seed), AccuracyResult)


def patterns(num_epochs: int, seed: int) -> dict[str, list[int]]:
    """The batch of each epoch: fixed at the two ends of the range, and three that change within it."""
    steps = np.geomspace(LEAST, MOST, 4).round().astype(int).tolist()
    rising = [steps[epoch * len(steps) // num_epochs] for epoch in range(num_epochs)]
    generator = np.random.default_rng(seed)
    starts = sorted(generator.choice(num_epochs, min(NUM_DRAWN, num_epochs), replace=False).tolist())
    drawn = [BASE] * num_epochs
    for start in starts:
        drawn[start:] = [int(generator.integers(LEAST, MOST + 1))] * (num_epochs - start)
    return {
        f"fixed, {LEAST}": [LEAST] * num_epochs,
        f"fixed, {MOST}": [MOST] * num_epochs,
        "rising": rising,
        "falling": rising[::-1],
        "random": drawn,
    }


@dataclass(frozen=True, kw_only=True)
class AccuracyExperiment:
    """Implements `experiment.Experiment`.

    Args:
        seeds: of each of the runs: initial parameters and the order of samples.
    """

    name: str
    title: str
    num_epochs: int = 30
    num_seeds: int = 5
    trainer: Trainer = train_all
    needs: tuple[str, ...] = ()

    def run(self, context: Context) -> Findings:
        """Train all runs; see `experiment.Experiment`."""
        lines = self._lines(context.seed)
        runs = [
            AccuracyRun(batches=batches, rule=rule, seed=context.seed + seed)
            for batches, rule in lines.values()
            for seed in range(self.num_seeds)
        ]
        with context.watch(self.name, len(runs)) as advance:
            results = self.trainer(runs, advance)
        by_line: dict[tuple[str, str], list[AccuracyResult]] = defaultdict(list)
        for number, result in enumerate(results):
            by_line[list(lines)[number // self.num_seeds]].append(result)
        return findings(self.name, self.title, self._truth(lines, context.seed), self._parts(by_line))

    def _lines(self, seed: int) -> dict[tuple[str, str], tuple[list[int], str]]:
        """(batches, rule) of each row; of the fixed own batch all rules are one."""
        lines = {_BASE_LINE: ([BASE] * self.num_epochs, RULES["fixed"])}
        for pattern, batches in patterns(self.num_epochs, seed).items():
            lines |= {(pattern, rule): (batches, name) for rule, name in RULES.items()}
        return lines

    def _truth(self, lines: Mapping[tuple[str, str], tuple[list[int], str]], seed: int) -> tuple[str, ...]:
        drawn = _told(lines["random", "linear"][0])
        return (
            "a convolutional network of 3,706 parameters on scikit-learn's digits, 1437 pictures to train on "
            f"and 360 held out; SGD with momentum, learning rate of a batch of {BASE}, a tenth of it after "
            f"60 % and again after 85 % of {self.num_epochs} epochs",
            f"seeds {seed} to {seed + self.num_seeds - 1}; random: {drawn}; swell {__version__}",
        )

    def _parts(self, found: Mapping[tuple[str, str], Sequence[AccuracyResult]]) -> Iterator[Part]:
        base = _final(found[_BASE_LINE])
        yield self._table(found, base)
        yield self._chart(found)
        changing = {line: _final(results).mean() - base.mean() for line, results in found.items()}
        changing = {line: apart for line, apart in changing.items() if not line[0].startswith("fixed")}
        for rule in RULES:
            far = {
                pattern: apart for (pattern, of), apart in changing.items() if of == rule and _is_far(apart)
            }
            told = ", ".join(f"{pattern} {apart:+.2f}" for pattern, apart in far.items())
            if far:
                yield f"Does not come out with the rule {rule}: {told} points from the fixed {BASE}."
            else:
                yield f"Comes out with the rule {rule}: within {SIMILAR_POINTS} points of the fixed {BASE}."
        yield (
            "The paper trains VGG11 on CIFAR-100 for 160 epochs, with a batch of 512 and of 128 to 1024, on "
            "GPUs. It does not say which rule its learning rate followed. Here one picture of the 360 "
            "is 0.28 points."
        )

    def _table(self, found: Mapping[tuple[str, str], Sequence[AccuracyResult]], base: np.ndarray) -> Table:
        rows: list[tuple[Cell, ...]] = []
        for (pattern, rule), results in found.items():
            final = _final(results)
            apart = float(final.mean() - base.mean())
            updates = round(float(np.mean([result.updates for result in results])))
            spread = float(final.std(ddof=1)) if len(final) > 1 else None
            measured = float(final.mean()), spread, float(final.min()), float(final.max())
            similar = "no" if _is_far(apart) else "yes"
            rows.append((pattern, rule, updates, *measured, apart, similar))
        return table(
            self.name,
            f"held-out accuracy after the last epoch, %, over {self.num_seeds} seeds; apart: from the fixed "
            f"batch of {BASE}, in points; similar: by no more than {SIMILAR_POINTS} (the paper's claim)",
            (
                *("batch", "learning rate", "updates", ("mean", 2), ("deviation", 2), ("least", 2)),
                *(("most", 2), ("apart", 2), "similar"),
            ),
            rows,
        )

    def _chart(self, found: Mapping[tuple[str, str], Sequence[AccuracyResult]]) -> Chart:
        own = _by_epoch(found[_BASE_LINE])
        panels = (
            panel(
                f"learning rate: {rule}",
                {f"fixed, {BASE}": own}
                | {pattern: _by_epoch(results) for (pattern, of), results in found.items() if of == rule},
            )
            for rule in RULES
        )
        x = ("epoch", range(1, self.num_epochs + 1))
        return chart(self.name, "held-out accuracy while the batch changes", "lines", x, "%", panels)


#: What all others are compared with.
_BASE_LINE = (f"fixed, {BASE}", "-")


def _final(results: Sequence[AccuracyResult]) -> np.ndarray:
    """Percent, by seed."""
    return 100.0 * np.array([result.accuracy[-1] for result in results])


def _by_epoch(results: Sequence[AccuracyResult]) -> list[float]:
    """Mean percent after each epoch."""
    mean: list[float] = (100.0 * np.mean([result.accuracy for result in results], axis=0)).tolist()
    return mean


def _is_far(apart: float) -> bool:
    return abs(apart) > SIMILAR_POINTS


def _told(batches: Sequence[int]) -> str:
    """`64, from epoch 4 on 101, ...`."""
    changes = [
        (epoch, batch) for epoch, batch in enumerate(batches) if epoch == 0 or batch != batches[epoch - 1]
    ]
    return ", ".join(f"{batch} from epoch {epoch + 1}" for epoch, batch in changes)
