"""A step in several passes, through a script's own loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

from swell import train

NUM_SAMPLES, BATCH = 30, 8


@pytest.fixture
def settings() -> Iterator[None]:
    """Torch's settings as they were, for `deterministic` changes them for the whole process."""
    num_threads, cudnn = torch.get_num_threads(), torch.backends.cudnn
    flags = cudnn.deterministic, cudnn.benchmark
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(num_threads)
    cudnn.deterministic, cudnn.benchmark = flags


def make(
    norm: bool = False, zeroes: bool = False, **options: Any
) -> tuple[nn.Sequential, list[float], list[int]]:
    """Train three epochs; returns the model, the losses of steps, and the samples of each pass."""
    torch.manual_seed(1)
    x = torch.randn(NUM_SAMPLES, 4)
    layers = [nn.Linear(4, 8), *([nn.BatchNorm1d(8)] if norm else []), nn.Tanh(), nn.Linear(8, 1)]
    model = nn.Sequential(*layers)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=BATCH, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=3, **options)
    losses, passes = [], []
    for _ in run.epochs():
        for a, b in run.batches():
            passes.append(len(a))
            optimizer.zero_grad(set_to_none=not zeroes)
            loss = nn.functional.mse_loss(model(a), b)
            mean = run.backward(loss)
            run.step()
            if run.has_stepped:
                losses.append(float(mean))
                assert len(losses) == run.steps
            else:
                assert mean == loss
    assert len(losses) == run.steps == run.total_steps == 12
    return model, losses, passes


def test_what_does_not_fit_at_once_goes_through_in_parts() -> None:
    whole, losses, passes = make()
    parts, losses_in_parts, more_passes = make(max_local_batch=3)
    assert passes == [8, 8, 8, 6] * 3
    assert more_passes == [2, 3, 3, 2, 3, 3, 2, 3, 3, 3, 3] * 3
    assert losses_in_parts == pytest.approx(losses, rel=1e-5)
    for ours, theirs in zip(parts.parameters(), whole.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)


def test_deterministic_sets_torch_and_one_thread(settings: None) -> None:
    torch.set_num_threads(2)
    make(deterministic=True)
    assert torch.get_num_threads() == 1
    assert torch.are_deterministic_algorithms_enabled()


def test_a_step_that_is_left_half_way_comes_to_nothing() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))
    optimizer = optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(TensorDataset(torch.arange(8.0).unsqueeze(1)), batch_size=8)
    run = train.elastic(model, optimizer, loader, epochs=1, max_local_batch=2)
    seen: list[list[float]] = []
    for (x,) in run.batches():
        seen.append(x.flatten().tolist())
        optimizer.zero_grad()
        loss = model(x).square().mean()
        run.backward(loss)
        run.step()
        if len(seen) == 2:
            break
    assert seen == [[0, 1], [2, 3]] and run.steps == 0
    assert torch.equal(model.get_buffer("1.running_mean"), torch.zeros(2))
    assert model.get_buffer("1.num_batches_tracked").item() == 0
    with pytest.raises(train.LoopError, match="was left before its last batch"):
        next(run.batches())
