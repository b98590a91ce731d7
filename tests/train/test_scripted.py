"""Models of `torch.jit.script` are trained as those of Python are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.collective.norms import BatchNormStatistics
from swell.train.runtime.model_check import check_model

X = torch.randn(24, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
of_scripts = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.count: torch.Tensor
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("passed_over", torch.ones(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1.0
        result: torch.Tensor = self.norm(self.linear(x)) * self.passed_over
        return result


def trained(model: Any, **options: Any) -> dict[str, torch.Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = train.elastic(model, optimizer, DataLoader(TensorDataset(X), 8, shuffle=True), epochs=2, **options)
    for _ in run.epochs():
        for (x,) in run.batches():
            optimizer.zero_grad()
            loss = (model(x) - x).square().mean()
            loss.backward()
            run.step(loss)
    return {name: value.clone() for name, value in model.state_dict().items()}


@of_scripts
@pytest.mark.parametrize("options", [{}, {"max_local_batch": 3}], ids=str)
def test_a_scripted_model_learns_what_it_would_learn_unscripted(options: dict[str, Any]) -> None:
    """Its batch norms note one update a step, and its other buffers change once, in however many passes."""
    plain = trained(Net().double(), **options)
    scripted = trained(torch.jit.script(Net().double()), **options)
    assert plain["count"] == plain["norm.num_batches_tracked"] == 6
    for name, value in plain.items():
        assert torch.allclose(value, scripted[name], rtol=1e-12, atol=1e-14), name


@of_scripts
def test_norms_are_known_by_their_names() -> None:
    made: list[nn.Module] = [
        nn.BatchNorm2d(3),
        nn.InstanceNorm1d(3, track_running_stats=True),
        nn.GroupNorm(1, 3),
    ]
    counts = [len(BatchNormStatistics(torch.jit.script(each)).tensors) for each in made]
    assert counts == [len(BatchNormStatistics(each).tensors) for each in made] == [2, 2, 0]


class Sparse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("graph", torch.eye(3).to_sparse())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.sparse.mm(self.graph, x)
        return result


@of_scripts
def test_what_cannot_be_sent_of_a_scripted_model_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"the model has 'graph' as a torch\.sparse_coo tensor"):
        check_model(torch.jit.script(Sparse()))
