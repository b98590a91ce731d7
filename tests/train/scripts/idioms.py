"""Loops in idioms that are found in other people's scripts: python idioms.py NAME.

The first ones give the same gradients at any number of workers; each of the others differs in one way.
Most idioms are scripts of `tests/scripts`, in double precision.
"""

# mypy: disable-error-code=no-any-return
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

import swell.train

BATCH, NUM_SAMPLES, WIDTH, CLASSES = 24, 96, 5, 3
torch.set_default_dtype(torch.float64 if "float32" not in sys.argv else torch.float32)
torch.manual_seed(7)
inputs = torch.randn(NUM_SAMPLES, WIDTH)
labels = torch.randint(0, CLASSES, (NUM_SAMPLES,))


def classifier(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, 16), *layers, nn.ReLU(), nn.Linear(16, CLASSES))


def train(
    model: nn.Module,
    loss_of: Callable[..., torch.Tensor],
    data: Dataset[Any] | None = None,
    after: Callable[..., object] = lambda *_: None,
    **options: Any,
) -> None:
    """The plain loop; `after` is called between the backward pass and the step."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    loader = DataLoader(data or TensorDataset(inputs, labels), batch_size=BATCH, shuffle=True)
    run = swell.train.elastic(model, optimizer, loader, epochs=3, **options)
    for _ in run.epochs():
        for batch in run.batches():
            optimizer.zero_grad()
            loss = loss_of(model, *batch)
            run.backward(loss)
            after(model, loss, run)
            run.step()
        run.report(last=float(loss))


def mean_loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(x), y)


# ---------------------------------------------------------------- right at any size
def plain() -> None:
    train(classifier(), mean_loss)


def half_precision_loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return functional.cross_entropy(model(x), y)


def half_precision() -> None:
    train(classifier(nn.LayerNorm(16)), half_precision_loss)


def single_precision_loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(x).float(), y)


def single_precision_logits() -> None:
    train(classifier(nn.LayerNorm(16)), single_precision_loss)


def deterministic_dropout() -> None:
    train(classifier(nn.Dropout(0.4), nn.BatchNorm1d(16)), mean_loss, deterministic=True)


# ---------------------------------------------------------------- known differences
def dropout() -> None:
    train(classifier(nn.Dropout(0.4)), mean_loss)


def batch_norm() -> None:
    train(classifier(nn.BatchNorm1d(16)), mean_loss)


def noise_in_the_loop() -> None:
    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return mean_loss(model, x + 0.1 * torch.randn_like(x), y)

    train(classifier(), loss_of)


# ---------------------------------------------------------------- other results at other sizes
def sum_loss() -> None:
    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(x), y, reduction="sum")

    train(classifier(), loss_of)


def sum_loss_with_dropout() -> None:
    train(classifier(nn.Dropout(0.3)), lambda model, x, y: nn.CrossEntropyLoss(reduction="sum")(model(x), y))


def class_weights_scaled_by_hand() -> None:
    def scale(model: nn.Module, *_: object) -> None:
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad = parameter.grad * 0.5

    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0, 0.2]))
    train(classifier(), lambda model, x, y: criterion(model(x), y), after=scale)


def class_weights() -> None:
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0, 0.2]))
    train(classifier(), lambda model, x, y: criterion(model(x), y))


def counted_passes() -> None:
    model, count = classifier(), {"passes": 0}
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=BATCH, shuffle=True)
    run = swell.train.elastic(model, optimizer, loader, epochs=3, max_local_batch=5)
    for _ in run.epochs():
        for x, y in run.batches():
            count["passes"] += 1
            weight = 1 + ("weighs" in sys.argv) * count["passes"]
            optimizer.zero_grad()
            loss = weight * mean_loss(model, x, y)
            run.backward(loss)
            run.step()


def class_weights_with_norm() -> None:
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0, 0.2]))
    train(classifier(nn.BatchNorm1d(16)), lambda model, x, y: criterion(model(x), y))


# ---------------------------------------------------------------- not to be compared
def accumulates() -> None:
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    run = swell.train.elastic(model, optimizer, DataLoader(TensorDataset(inputs, labels), BATCH), epochs=3)
    for number, (x, y) in enumerate(run.batches()):
        run.backward(mean_loss(model, x, y) / 4)
        if (number + 1) % 4 == 0:
            run.step()
            optimizer.zero_grad()


def wants_even_batches() -> None:
    train(classifier(), lambda model, x, y: mean_loss(model, x.view(2, len(x) // 2, -1).flatten(0, 1), y))


def skips_small_batches() -> None:
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    run = swell.train.elastic(model, optimizer, DataLoader(TensorDataset(inputs, labels), BATCH), epochs=3)
    for x, y in run.batches():
        if len(x) < 8:
            continue
        loss = mean_loss(model, x, y)
        optimizer.zero_grad()
        run.backward(loss)
        run.step()


def leaves_early() -> None:
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    run = swell.train.elastic(model, optimizer, DataLoader(TensorDataset(inputs, labels), BATCH), epochs=3)
    for number, (x, y) in enumerate(run.batches()):
        loss = mean_loss(model, x, y)
        optimizer.zero_grad()
        run.backward(loss)
        run.step()
        if number == 2:
            break


if __name__ == "__main__":
    globals()[sys.argv[1]]()
