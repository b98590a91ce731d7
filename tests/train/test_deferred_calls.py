"""What becomes of calls in a script's loop: clipping, scalers and weights, in one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
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

    def go_backward(self, x: torch.Tensor, scaler: torch.amp.GradScaler | None = None) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss: torch.Tensor = self.model(x).square().mean()
        (loss if scaler is None else scaler.scale(loss)).backward()
        return loss

    @property
    def norm(self) -> float:
        return float(
            torch.stack([p.grad.norm() for p in self.model.parameters() if p.grad is not None]).norm()
        )


def test_outside_of_the_loop_clipping_is_torchs_own() -> None:
    script, other = Script(), nn.Linear(3, 1, dtype=torch.float64)
    script.go_backward(X)
    assert float(clip_grad_norm_(script.model.parameters(), 0.01)) > 0.01 > script.norm * 0.999
    for (x,) in script.run.batches():
        other(x).sum().backward()
        clip_grad_value_(other.parameters(), 0.01)
        assert other.weight.grad is not None and float(other.weight.grad.abs().max()) <= 0.01
        loss = script.go_backward(x)
        before = script.norm
        clip_grad_norm_(script.model.parameters(), 0.01)
        assert script.norm == before
        script.run.step(loss)
        assert script.norm == pytest.approx(0.01, rel=1e-3)
        clip_grad_norm_(script.model.parameters(), 0.001)
        assert script.norm == pytest.approx(0.001, rel=1e-2)
    script.go_backward(X)
    get_total_norm([p.grad for p in script.model.parameters() if p.grad is not None])
    clip_grad_norm_(script.model.parameters(), 0.01)
    assert script.norm == pytest.approx(0.01, rel=1e-3)


def test_a_norm_becomes_that_of_the_average() -> None:
    whole = Script()
    whole.go_backward(X)
    script, seen = Script(max_local_batch=6), []
    for (x,) in script.run.batches():
        loss = script.go_backward(x)
        norm = clip_grad_norm_(script.model.parameters(), max_norm=1e-3)
        seen.append((float(norm), script.norm))
        script.run.step(loss)
    assert all(own == of_pass for own, of_pass in seen)
    assert float(norm) == pytest.approx(whole.norm) != seen[-1][0]


def test_a_norm_that_is_no_number_is_an_error_where_the_script_wants_that() -> None:
    script = Script()
    for (x,) in script.run.batches():
        loss = script.go_backward(x * torch.inf)
        clip_grad_norm_(script.model.parameters(), 1.0, error_if_nonfinite=True)
        with pytest.raises(RuntimeError, match="non-finite"):
            script.run.step(loss)
        break


def test_a_norm_of_ones_own_is_refused() -> None:
    script = Script()
    for (x,) in script.run.batches():
        script.go_backward(x)
        own = torch.tensor(script.norm)
        with pytest.raises(
            train.LoopError, match=r"get_total_norm returned, unchanged, or call clip_grad_norm_"
        ):
            clip_grads_with_norm_(script.model.parameters(), 1.0, own)
        break


def test_a_step_without_weight_counts_and_changes_nothing() -> None:
    script = Script(batch=6)
    for number, (x,) in enumerate(script.run.batches()):
        before = script.model.weight.clone()
        loss = script.go_backward(x if number == 0 else x * torch.nan)
        mean = script.run.step(loss, weight=6 * (number == 0))
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
        loss.backward()
        mean = script.run.step(loss, weight=x[:, 0].abs().sum())
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
        loss = script.go_backward(x)
        with pytest.raises(train.LoopError, match=match):
            script.run.step(loss, **step)
        break


def test_weights_that_cannot_be_are_refused() -> None:
    refuse(r"weight=-1\.0\): a weight is a finite number, 0 or more", Script(), weight=-1)
    refuse("weight=nan", Script(), weight=torch.tensor(torch.nan))
    refuse("a sum has no weight", Script(loss_reduction="sum"), weight=3)
    script = Script(max_local_batch=6)
    with pytest.raises(train.LoopError, match="in some passes of a step and none in others"):
        for number, (x,) in enumerate(script.run.batches()):
            script.run.step(script.go_backward(x), weight=1 if number == 0 else None)
    script = Script(max_local_batch=6)
    with pytest.raises(train.LoopError, match="in some passes of a step and none in others"):
        for number, (x,) in enumerate(script.run.batches()):
            script.run.step(script.go_backward(x), weight=1 if number == 1 else None)


def test_steps_of_a_scaler_and_second_scalers_are_refused() -> None:
    scaler, second = torch.amp.GradScaler("cpu"), torch.amp.GradScaler("cpu")
    script = Script()
    for (x,) in script.run.batches():
        script.go_backward(x, scaler)
        with pytest.raises(
            train.LoopError, match=r"scaler\.step\(optimizer\) .* put run\.step\(loss\) in its place"
        ):
            scaler.step(script.optimizer)
        with pytest.raises(train.LoopError, match="use one for all losses"):
            script.go_backward(x, second)
        break


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
        loss.backward()
        run.step(loss, **step)
    assert torch.allclose(norm.get_buffer("running_mean"), X.mean(0))
