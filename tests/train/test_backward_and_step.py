"""What a script does between `run.backward` and `run.step`, weights and scalers, in one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from swell import train

X = torch.randn(12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


class Stream(IterableDataset[tuple[torch.Tensor]]):
    def __iter__(self) -> Iterator[tuple[torch.Tensor]]:
        yield from zip(X, strict=True)


class Script:
    """A model, its run and what a loop needs."""

    def __init__(self, stream: bool = False, batch: int = 12, **options: Any) -> None:
        torch.manual_seed(1)
        self.model = nn.Linear(3, 1, dtype=torch.float64)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9, weight_decay=0.1)
        loader = DataLoader(Stream() if stream else TensorDataset(X), batch_size=batch)
        self.run = train.elastic(self.model, self.optimizer, loader, **{"epochs": 1} | options)

    def loss_of(self, x: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss: torch.Tensor = self.model(x).square().mean()
        return loss

    @property
    def norm(self) -> float:
        return float(
            torch.stack([p.grad.norm() for p in self.model.parameters() if p.grad is not None]).norm()
        )


@pytest.mark.parametrize("most", [None, 5])
def test_between_the_calls_the_gradient_is_that_of_the_step_and_the_scripts_own(most: int | None) -> None:
    whole, script, seen = Script(), Script(max_local_batch=most), []
    whole.loss_of(X).backward()
    for (x,) in script.run.batches():
        script.run.backward(script.loss_of(x))
        norm = clip_grad_norm_(script.model.parameters(), 1e-3)
        seen.append(float(norm))
        script.run.step()
    assert seen == pytest.approx([0.0] * (len(seen) - 1) + [whole.norm])
    assert script.norm == pytest.approx(1e-3, rel=1e-2)


def test_a_step_that_a_script_leaves_out_counts_and_changes_nothing() -> None:
    script = Script(batch=3)
    for (x,) in script.run.batches():
        before = script.model.weight.clone()
        script.run.backward(script.loss_of(x))
        if is_large := script.run.steps in (1, 3):
            script.optimizer.zero_grad()
        else:
            script.run.step()
        assert torch.equal(before, script.model.weight) == is_large
    assert script.run.steps == 4


def test_a_script_that_never_steps_is_told_so() -> None:
    script = Script(batch=2)
    with pytest.raises(train.LoopError, match=r"run\.step\(\) was never called"):
        for (x,) in script.run.batches():
            script.run.backward(script.loss_of(x))


def test_gradients_that_a_script_computes_itself_are_averaged() -> None:
    script, whole = Script(max_local_batch=4), Script()
    whole.loss_of(X).backward()
    for (x,) in script.run.batches():
        loss = script.loss_of(x)
        for parameter, gradient in zip(
            script.model.parameters(), torch.autograd.grad(loss, list(script.model.parameters())), strict=True
        ):
            parameter.grad = gradient
        script.run.backward(loss.detach())
        norm = clip_grad_norm_(script.model.parameters(), 1e9)
        script.run.step()
    assert float(norm) == pytest.approx(whole.norm)


def test_a_step_without_weight_counts_and_changes_nothing() -> None:
    script = Script(batch=6)
    for number, (x,) in enumerate(script.run.batches()):
        before = script.model.weight.clone()
        loss = script.loss_of(x if number == 0 else x * torch.nan)
        mean = script.run.backward(loss, weight=6 * (number == 0))
        script.run.step()
        assert script.run.has_stepped
        assert torch.equal(before, script.model.weight) == (number == 1) == (float(mean) == 0.0)
    assert script.run.steps == 2


@pytest.mark.parametrize("options", [{"stream": True}, {"deterministic": True, "shards": 3}, {}])
@pytest.mark.parametrize("batch", [12, 5])
def test_weights_are_the_same_of_streams_and_open_batches(options: dict[str, Any], batch: int) -> None:
    if not options:
        options = {"max_local_batch": 2}
    weights = X[:, 0].abs()  # so many units has each sample
    script, losses, expected = Script(**options), [], []
    script.run._task.course.batch = batch
    num_threads = torch.get_num_threads()
    for (x,) in script.run.batches():
        script.optimizer.zero_grad()
        loss = (x[:, 0].abs() * script.model(x).squeeze(1).square()).sum() / x[:, 0].abs().sum()
        mean = script.run.backward(loss, weight=x[:, 0].abs().sum())
        script.run.step()
        if script.run.has_stepped:
            losses.append(float(mean))
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(num_threads)
    plain = Script()
    for x, unit in zip(X.split(batch), weights.split(batch), strict=True):
        plain.optimizer.zero_grad()
        loss = (unit * plain.model(x).squeeze(1).square()).sum() / unit.sum()
        loss.backward()
        plain.optimizer.step()
        expected.append(loss.item())
    assert losses == pytest.approx(expected, rel=1e-12)
    assert torch.allclose(script.model.weight, plain.model.weight, rtol=1e-12)


def refuse(match: str, script: Script, **step: Any) -> None:
    for (x,) in script.run.batches():
        with pytest.raises(train.LoopError, match=match):
            script.run.backward(script.loss_of(x), **step)
        break


def test_weights_that_cannot_be_are_refused() -> None:
    refuse(r"weight=-1\.0\): a weight is a finite number, 0 or more", Script(), weight=-1)
    refuse("weight=nan", Script(), weight=torch.tensor(torch.nan))
    refuse("a sum has no weight", Script(loss_reduction="sum"), weight=3)
    script = Script(max_local_batch=6)
    with pytest.raises(train.LoopError, match="in some passes of a step and none in others"):
        for number, (x,) in enumerate(script.run.batches()):
            script.run.backward(script.loss_of(x), weight=1 if number == 0 else None)
            script.run.step()
    script = Script(max_local_batch=6)
    with pytest.raises(train.LoopError, match="in some passes of a step and none in others"):
        for number, (x,) in enumerate(script.run.batches()):
            script.run.backward(script.loss_of(x), weight=1 if number == 1 else None)
            script.run.step()


def test_a_step_with_a_loss_steps_of_a_scaler_and_second_scalers_are_refused() -> None:
    scaler, second = torch.amp.GradScaler("cpu"), torch.amp.GradScaler("cpu")
    script = Script()
    for (x,) in script.run.batches():
        with pytest.raises(train.LoopError, match=r"without run\.backward\(loss\) before it"):
            script.run.step(script.loss_of(x))  # type: ignore[arg-type]
        (loss := script.loss_of(x)).backward()
        with pytest.raises(train.LoopError, match=r"take `loss\.backward\(\)` before it out"):
            script.run.backward(loss)
        script.run.backward(script.loss_of(x), scaler=scaler)
        with pytest.raises(train.LoopError, match="put it in its place"):
            scaler.step(script.optimizer)
        break
    script = Script()
    with pytest.raises(train.LoopError, match=r"given scaler\.scale\(loss\)"):
        for (x,) in script.run.batches():
            script.run.backward(scaler.scale(script.loss_of(x)))
    script = Script(batch=6)
    with pytest.raises(train.LoopError, match="use one for all losses"):
        for (x,), each in zip(script.run.batches(), (scaler, second), strict=True):
            script.run.backward(script.loss_of(x), scaler=each)
            script.run.step()


@pytest.mark.parametrize("step", [{"weight": 5.0}, {"weight": 0.0}, {}])
def test_statistics_of_batch_norms_are_averaged_by_samples_whatever_the_weights(step: dict[str, Any]) -> None:
    norm = nn.BatchNorm1d(3, momentum=1.0, dtype=torch.float64)
    model = nn.Sequential(norm, nn.Linear(3, 1, dtype=torch.float64))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    reduction: Literal["mean", "sum"] = "mean" if step else "sum"
    loader = DataLoader(TensorDataset(X), batch_size=12)
    run = train.elastic(model, optimizer, loader, epochs=1, max_local_batch=5, loss_reduction=reduction)
    for (x,) in run.batches():
        optimizer.zero_grad()
        loss = model(x).square().sum()
        run.backward(loss, **step)
        run.step()
    assert torch.allclose(norm.get_buffer("running_mean"), X.mean(0))
