"""Weighted sums of the workers' gradients are the gradient of the whole batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from swell.train.course import Course
from swell.train.gradients import Gradients, Tally


class Net(nn.Module):
    """`side` has a gradient only where a sample is positive, `idle` never has one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.main = nn.Linear(2, 1, dtype=torch.float64)
        self.side = nn.Parameter(torch.ones(1, dtype=torch.float64))
        self.idle = nn.Parameter(torch.ones(4, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.main(x).square().mean()
        return y + (self.side * x.relu()).mean() if bool((x > 0).any()) else y


def gradients_of(net: nn.Module) -> list[torch.Tensor | None]:
    return [None if parameter.grad is None else parameter.grad.clone() for parameter in net.parameters()]


def reduce_all(nets: list[Net], losses: list[torch.Tensor], course: Course, votes: int) -> list[Tally]:
    """What a group does, in one process: pack all, sum, unpack each."""
    packed: list[torch.Tensor] = []
    shares = [course.share(0, rank, len(nets)) for rank in range(len(nets))]
    workers = [Gradients(net) for net in nets]

    def run(rank: int, sum_all: Callable[[torch.Tensor], None]) -> Tally:
        return workers[rank].reduce(shares[rank], losses[rank], rank < votes, rank == 1, sum_all)

    kept = [gradients_of(net) for net in nets]
    for rank in range(len(nets)):
        run(rank, lambda flat: packed.append(flat.clone()))
        for parameter, grad in zip(nets[rank].parameters(), kept[rank], strict=True):
            parameter.grad = grad
    total = torch.stack(packed).sum(0)
    return [run(rank, lambda flat: flat.copy_(total)) for rank in range(len(nets))]


@given(st.integers(1, 12), st.integers(1, 8))
def test_equal_to_one_process(num_samples: int, num_workers: int) -> None:
    course = Course(num_samples, num_samples, True, False)
    x = torch.randn(num_samples, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(num_samples))
    whole = Net()
    expected = whole(x)
    expected.backward()
    nets, losses = [Net() for _ in range(num_workers)], []
    for rank, net in enumerate(nets):
        loss = net(x[course.share(0, rank, num_workers).indices])
        loss.backward()
        losses.append(loss.detach())
    tallies = reduce_all(nets, losses, course, votes=num_workers // 2)
    for net, tally in zip(nets, tallies, strict=True):
        assert tally.loss.item() == pytest.approx(expected.item())
        assert (tally.num_votes, tally.is_stop) == (num_workers // 2, num_workers > 1)
        for ours, theirs in zip(gradients_of(net), gradients_of(whole), strict=True):
            assert (ours is None) == (theirs is None)
            assert ours is None or theirs is None or torch.allclose(ours, theirs, rtol=1e-10)


def test_a_borrowed_sample_counts_nothing_even_if_its_loss_is_infinite() -> None:
    course = Course(1, 1, False, False)
    nets = [Net(), Net()]
    for net in nets:
        net.main.weight.grad = torch.full((1, 2), 2.0, dtype=torch.float64)
    nets[0].main.weight.grad = torch.full((1, 2), torch.inf, dtype=torch.float64)  # rank 0 borrows here
    tallies = reduce_all(nets, [torch.tensor(torch.inf), torch.tensor(3.0)], course, votes=0)
    assert [tally.loss.item() for tally in tallies] == [3.0, 3.0]
    assert torch.equal(nets[0].main.weight.grad, torch.full((1, 2), 2.0, dtype=torch.float64))


def test_a_failed_sum_leaves_gradients_as_they_were() -> None:
    net = Net()
    net.main.weight.grad = torch.ones(1, 2, dtype=torch.float64)

    def fail(flat: torch.Tensor) -> None:
        raise RuntimeError("peer is gone")

    with pytest.raises(RuntimeError, match="peer is gone"):
        Gradients(net).reduce(
            Course(2, 2, False, False).share(0, 0, 2), torch.tensor(1.0), False, False, fail
        )
    assert torch.equal(net.main.weight.grad, torch.ones(1, 2, dtype=torch.float64))
    assert net.side.grad is None


def test_batch_norm_statistics_are_averaged_by_weight() -> None:
    nets = [nn.BatchNorm1d(1) for _ in range(2)]
    course = Course(3, 3, False, False)  # rank 0 has one sample, rank 1 two
    for value, net in zip((0.0, 3.0), nets, strict=True):
        net.running_mean.fill_(value)
        net.weight.grad = torch.ones(1)
    reduce_all(nets, [torch.tensor(0.0)] * 2, course, votes=0)  # type: ignore[arg-type]
    assert [net.running_mean.item() for net in nets] == pytest.approx([2.0, 2.0])


def test_sparse_gradients_are_refused() -> None:
    net = nn.Embedding(5, 2, sparse=True)
    net(torch.tensor([1])).sum().backward()
    with pytest.raises(TypeError, match="sparse=False"):
        Gradients(net).reduce(
            Course(1, 1, False, False).share(0, 0, 1), torch.tensor(0.0), False, False, print
        )
