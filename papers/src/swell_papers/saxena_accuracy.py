"""Accuracy under a batch that changes while a model trains (Saxena et al., section II-C and Figure 2)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from swell.model.errors import InvalidInput
from swell_papers.experiment import Claim, Context, Key, Measure, Picture, Results, Study

#: Modules that training imports.
NEEDED = ("torch", "sklearn")
#: The batch that the learning rate was chosen for, and the range in which the batch changes. The paper's are
#: 512, and 128 to 1024.
BASE, LEAST, MOST = 64, 16, 128
#: Rules of the learning rate, by what the table calls them; the others are those of `train.scaling`.
RULES = {"fixed": "none", "linear": "linear", "square root": "square_root"}
LEARNING_RATE, MOMENTUM = 0.05, 0.9
#: The learning rate falls to a tenth after each of these shares of the run's epochs.
FALLS = (0.6, 0.85)
#: Final accuracies that differ by no more are similar, in percentage points (section II-C).
SIMILAR_POINTS = 0.5
#: In how many epochs of a run the batch changes, for a pattern that draws them.
NUM_DRAWN = 6
#: What all others are compared with: pattern and rule.
BASE_LINE = (f"fixed, {BASE}", "-")


class AccuracyResult(NamedTuple):
    """What came of a training run."""

    accuracy: float  #: share of held-out pictures that are read right, after the last epoch
    updates: int


def trained(batches: Sequence[int], rule: str, seed: int) -> AccuracyResult:
    """Train with so many samples a step in each epoch. Raises InvalidInput: a library is missing.

    Args:
        rule: as `train.scaling` calls it.
    """
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise InvalidInput(
            f"fig2 trains a model and lacks {' and '.join(missing)}; "
            f"{sys.executable} -m pip install 'swell[demo]'"
        )
    import torch
    from torch.nn.functional import cross_entropy

    from swell.demo.cnn import accuracy, build_model
    from swell.demo.digits import digits
    from swell.train import scaling

    torch.manual_seed(seed)
    torch.set_num_threads(1)  # for the same figures on every machine
    data, images, labels = digits()
    x, y = data.tensors
    model = build_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    updates = 0
    for epoch, batch in enumerate(batches):
        rate = LEARNING_RATE * 0.1 ** sum(epoch >= fall * len(batches) for fall in FALLS)
        for places in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            cross_entropy(model(x[places]), y[places]).backward()
            factor = 1.0 if rule == RULES["fixed"] else scaling.RULES[rule](len(places) / BASE)
            optimizer.param_groups[0]["lr"] = rate * factor
            optimizer.step()
            updates += 1
    return AccuracyResult(accuracy(model, images, labels), updates)


def patterns(num_epochs: int, seed: int) -> dict[str, tuple[int, ...]]:
    """The batch of each epoch: fixed at the two ends of the range, and three that change within it."""
    steps = np.geomspace(LEAST, MOST, 4).round().astype(int).tolist()
    rising = tuple(steps[epoch * len(steps) // num_epochs] for epoch in range(num_epochs))
    generator = np.random.default_rng(seed)
    starts = sorted(generator.choice(num_epochs, min(NUM_DRAWN, num_epochs), replace=False).tolist())
    drawn = [BASE] * num_epochs
    for start in starts:
        drawn[start:] = [int(generator.integers(LEAST, MOST + 1))] * (num_epochs - start)
    return {
        f"fixed, {LEAST}": (LEAST,) * num_epochs,
        f"fixed, {MOST}": (MOST,) * num_epochs,
        "rising": rising,
        "falling": rising[::-1],
        "random": tuple(drawn),
    }


def final(result: AccuracyResult) -> float:
    """Percent."""
    return 100.0 * result.accuracy


def accuracy_study(num_epochs: int = 30, num_seeds: int = 5) -> Study[AccuracyResult]:
    """A study of what a model has learnt under each pattern of batches and each rule of the learning rate.

    Args:
        num_seeds: of each of the runs: initial parameters and the order of samples.
    """

    def cases(context: Context) -> Mapping[Key, Callable[[], AccuracyResult]]:
        lines = {BASE_LINE: ((BASE,) * num_epochs, RULES["fixed"])}
        for pattern, batches in patterns(num_epochs, context.seed).items():
            lines |= {(pattern, rule): (batches, told) for rule, told in RULES.items()}
        return {
            (*line, seed): lambda batches=batches, rule=rule, seed=seed: trained(batches, rule, seed)  # type: ignore[misc]
            for line, (batches, rule) in lines.items()
            for seed in context.seeds(num_seeds)
        }

    def truth(context: Context, found: Results[AccuracyResult]) -> Iterator[str]:
        yield (
            "a convolutional network of 3,706 parameters on scikit-learn's digits, 1437 pictures to train on "
            f"and 360 held out; SGD with momentum, learning rate of a batch of {BASE}, a tenth of it after "
            f"60 % and again after 85 % of {num_epochs} epochs"
        )
        yield f"random: {_told(patterns(num_epochs, context.seed)['random'])}"

    return Study(
        name="fig2",
        title="Figure 2: accuracy while the batch changes",
        cases=cases,
        keys=("batch", "learning rate"),
        measures=(
            Measure("updates", lambda result: result.updates, 0),
            Measure("accuracy, %", final, 2, has_interval=True),
        ),
        pictures=(Picture(measures=("accuracy, %",), x="batch", lines="learning rate"),),
        caption=f"held-out accuracy after the last epoch, over {num_seeds} seeds",
        claims=[
            Claim(
                text=f"{pattern}, learning rate {rule}: accuracy of the fixed batch of {BASE}, %",
                figure=lambda found: found.mean(final, *BASE_LINE),
                of=lambda found, line=(pattern, rule): found.mean(final, *line),  # type: ignore[misc]
                within=SIMILAR_POINTS / 100.0,
            )
            for rule in RULES
            for pattern in ("rising", "falling", "random")
        ],
        truth=truth,
        num_seeds=num_seeds,
    )


def _told(batches: Sequence[int]) -> str:
    """`64 from epoch 1, 101 from epoch 4, ...`."""
    changes = [at for at, batch in enumerate(batches) if at == 0 or batch != batches[at - 1]]
    return ", ".join(f"{batches[at]} from epoch {at + 1}" for at in changes)
