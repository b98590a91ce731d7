"""Loops in idioms that are found in other people's scripts: python idioms.py NAME.

Those in `RIGHT` give the same gradients at any number of workers; each of the others differs in one way.
"""

# mypy: disable-error-code=no-any-return
from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, Dataset, TensorDataset

import swell.train

BATCH, NUM_SAMPLES, WIDTH, CLASSES = 24, 96, 5, 3
torch.set_default_dtype(torch.float64 if "float32" not in sys.argv else torch.float32)
torch.manual_seed(7)
inputs = torch.randn(NUM_SAMPLES, WIDTH)
labels = torch.randint(0, CLASSES, (NUM_SAMPLES,))
values = inputs.sum(1, keepdim=True) + 0.3 * torch.randn(NUM_SAMPLES, 1)


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
            loss.backward()
            after(model, loss, run)
            run.step(loss)
        run.report(last=float(loss))


def mean_loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(x), y)


# ---------------------------------------------------------------- right at any size
def plain() -> None:
    train(classifier(), mean_loss)


def regression() -> None:
    train(
        nn.Linear(WIDTH, 1),
        lambda model, x, y: functional.mse_loss(model(x), y),
        TensorDataset(inputs, values),
    )


def mean_by_hand() -> None:
    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(x), y, reduction="sum") / len(x)

    train(classifier(), loss_of)


def weight_decay_and_scheduler() -> None:
    model = classifier(nn.LayerNorm(16))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=BATCH)
    run = swell.train.elastic(model, optimizer, loader, epochs=3, scheduler=scheduler)
    for _ in run.epochs():
        for x, y in run.batches():
            loss = mean_loss(model, x, y)
            loss.backward()
            run.step(loss)
            optimizer.zero_grad(set_to_none=True)


def moving_average() -> None:
    model, step = classifier(), 0
    average = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=BATCH, shuffle=True)
    run = swell.train.elastic(model, optimizer, loader, epochs=3)
    for _ in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = mean_loss(model, x, y)
            loss.backward()
            run.step(loss)
            if run.has_stepped:
                step += 1
                for mine, theirs in zip(average.parameters(), model.parameters(), strict=True):
                    mine.data.lerp_(theirs.data, 0.1)


def two_losses() -> None:
    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scores = model(x)
        return functional.cross_entropy(scores, y, label_smoothing=0.1) + 0.01 * scores.pow(2).mean()

    train(classifier(), loss_of)


def penalty() -> None:
    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return mean_loss(model, x, y) + 1e-3 * sum(p.abs().sum() for p in model.parameters())

    train(classifier(), loss_of)


def logs_its_norm() -> None:
    train(classifier(), mean_loss, after=lambda model, *_: clip_grad_norm_(model.parameters(), float("inf")))


def clip_in_the_loop() -> None:
    def clip(model: nn.Module, *_: object) -> None:
        clip_grad_norm_(model.parameters(), 0.05)
        nn.utils.clip_grad_value_(model.parameters(), 0.01)

    train(classifier(), mean_loss, after=clip)


def declared_sum() -> None:
    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(x), y, reduction="sum") / BATCH

    train(classifier(), loss_of, loss_reduction="sum")


def declared_weights() -> None:
    model, weights = classifier(nn.LayerNorm(16)), torch.tensor([1.0, 5.0, 0.2])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=BATCH, shuffle=True)
    run = swell.train.elastic(model, optimizer, loader, epochs=3)
    for _ in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y, weight=weights)
            loss.backward()
            run.step(loss, weight=float(weights[y].sum()))


def evaluates_in_the_loop() -> None:
    held_out = DataLoader(TensorDataset(inputs, labels), batch_size=32)

    @torch.no_grad()
    def evaluate(model: nn.Module, *_: object) -> float:
        return (
            sum(float(functional.cross_entropy(model(x), y, reduction="sum")) for x, y in held_out)
            / NUM_SAMPLES
        )

    train(classifier(), mean_loss, after=evaluate)


def fixed_length_tokens() -> None:
    tokens = torch.randint(0, 11, (NUM_SAMPLES, 9))
    model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11))

    def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())

    train(model, loss_of, TensorDataset(tokens))


def schedule_by_run_steps() -> None:
    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return mean_loss(model, x, y)

    train(classifier(), loss_of, after=lambda model, loss, run: min(1.0, run.steps / 10))


def frozen_part() -> None:
    model = classifier(nn.BatchNorm1d(16).eval(), nn.GroupNorm(4, 16))
    for parameter in model[0].parameters():
        parameter.requires_grad = False
    train(model, mean_loss)


def augments_samples() -> None:
    class Noisy(Dataset[Any]):
        def __len__(self) -> int:
            return NUM_SAMPLES

        def __getitem__(self, index: int) -> Any:
            return inputs[index] + torch.randn(WIDTH) * random.random(), labels[index]

    train(classifier(), mean_loss, Noisy())


def half_precision_loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return functional.cross_entropy(model(x), y)


def half_precision() -> None:
    train(classifier(nn.LayerNorm(16)), half_precision_loss)


def deterministic_dropout() -> None:
    train(classifier(nn.Dropout(0.4), nn.BatchNorm1d(16)), mean_loss, deterministic=True)


def baseline_of_all() -> None:
    """What `run.step` returns is the same on all workers, and may be used in the next step."""
    model, baseline = classifier(), torch.zeros(())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    run = swell.train.elastic(model, optimizer, DataLoader(TensorDataset(inputs, labels), BATCH), epochs=3)
    for x, y in run.batches():
        optimizer.zero_grad()
        loss = mean_loss(model, x, y) / (1 + baseline)
        loss.backward()
        baseline = 0.9 * baseline + 0.1 * run.step(loss)


def frozen_after_elastic() -> None:
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    run = swell.train.elastic(model, optimizer, DataLoader(TensorDataset(inputs, labels), BATCH), epochs=3)
    model[0].requires_grad_(False)
    for x, y in run.batches():
        optimizer.zero_grad()
        loss = mean_loss(model, x, y)
        loss.backward()
        run.step(loss)


RIGHT = (
    *(plain, regression, mean_by_hand, weight_decay_and_scheduler, moving_average, two_losses, penalty),
    *(logs_its_norm, evaluates_in_the_loop, fixed_length_tokens, schedule_by_run_steps, frozen_part),
    *(augments_samples, half_precision, deterministic_dropout, clip_in_the_loop, declared_sum),
    *(declared_weights, baseline_of_all, frozen_after_elastic),
)


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


def divided_by_the_batch() -> None:
    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        losses = functional.cross_entropy(model(x), y, reduction="none")
        return losses.sum() / BATCH

    train(classifier(), loss_of)


def sum_loss_with_dropout() -> None:
    train(classifier(nn.Dropout(0.3)), lambda model, x, y: nn.CrossEntropyLoss(reduction="sum")(model(x), y))


def scale_to_norm(model: nn.Module, *_: object) -> None:
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = float(torch.stack([gradient.norm() for gradient in gradients]).norm())
    for gradient in gradients:
        gradient.mul_(min(1.0, 0.05 / norm))


def clip_by_hand() -> None:
    def clip(model: nn.Module, *_: object) -> None:
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.clamp_(-0.01, 0.01)

    train(classifier(), mean_loss, after=clip)


def clip_by_hand_with_dropout() -> None:
    train(classifier(nn.Dropout(0.4)), mean_loss, after=scale_to_norm)


def clip_by_hand_in_half_precision() -> None:
    train(classifier(nn.LayerNorm(16)), half_precision_loss, after=scale_to_norm)


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
            loss.backward()
            run.step(loss)


def class_weights_with_norm() -> None:
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0, 0.2]))
    train(classifier(nn.BatchNorm1d(16)), lambda model, x, y: criterion(model(x), y))


def padded_tokens() -> None:
    tokens = torch.randint(0, 11, (NUM_SAMPLES, 9))
    for row, length in enumerate(torch.randint(3, 10, (NUM_SAMPLES,))):
        tokens[row, length:] = -100
    model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11))

    def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        scores = model(x[:, :-1].clamp(min=0)).flatten(0, 1)
        return functional.cross_entropy(scores, x[:, 1:].flatten())

    train(model, loss_of, TensorDataset(tokens))


def masked_mean() -> None:
    mask = torch.rand(NUM_SAMPLES, 1) < 0.6
    data = TensorDataset(inputs, values, mask)

    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        losses = functional.mse_loss(model(x), y, reduction="none")
        return (losses * mask).sum() / mask.sum()

    train(nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, 1)), loss_of, data)


class Baseline(nn.Module):
    baseline: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, 1)
        self.register_buffer("baseline", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layer(x)
        centred = scores - self.baseline
        self.baseline.lerp_(scores.mean().detach(), 0.1)
        return centred


def batch_buffer() -> None:
    train(Baseline(), lambda model, x, y: functional.mse_loss(model(x), y), TensorDataset(inputs, values))


def running_baseline() -> None:
    baseline = 0.0

    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        nonlocal baseline
        losses = functional.mse_loss(model(x), y, reduction="none")
        baseline = 0.9 * baseline + 0.1 * float(losses.mean())
        return ((losses - baseline) ** 2).mean()

    train(nn.Linear(WIDTH, 1), loss_of, TensorDataset(inputs, values))


def counted_weight() -> None:
    seen = 0

    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        nonlocal seen
        seen += 1
        return mean_loss(model, x, y) + min(1.0, seen / 100) * model(x).pow(2).mean()

    train(classifier(), loss_of)


def second_loader() -> None:
    others = DataLoader(TensorDataset(inputs.flip(0)), batch_size=8, shuffle=True)
    stream = iter(others)

    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        nonlocal stream
        try:
            (other,) = next(stream)
        except StopIteration:
            stream = iter(others)
            (other,) = next(stream)
        return mean_loss(model, x, y) + model(other).pow(2).mean()

    train(classifier(), loss_of)


def contrastive() -> None:
    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scores = functional.normalize(model(x)) @ functional.normalize(model(x + 0.01)).T
        return functional.cross_entropy(scores / 0.1, torch.arange(len(x)))

    train(classifier(), loss_of)


# ---------------------------------------------------------------- not to be compared
def accumulates() -> None:
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    run = swell.train.elastic(model, optimizer, DataLoader(TensorDataset(inputs, labels), BATCH), epochs=3)
    for number, (x, y) in enumerate(run.batches()):
        loss = mean_loss(model, x, y) / 4
        loss.backward()
        if (number + 1) % 4 == 0:
            run.step(loss)
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
        loss.backward()
        run.step(loss)


def leaves_early() -> None:
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    run = swell.train.elastic(model, optimizer, DataLoader(TensorDataset(inputs, labels), BATCH), epochs=3)
    for number, (x, y) in enumerate(run.batches()):
        loss = mean_loss(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        run.step(loss)
        if number == 2:
            break


if __name__ == "__main__":
    globals()[sys.argv[1]]()
