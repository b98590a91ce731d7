"""Weighted sums of the passes' gradients are the gradient of the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from swell.train.collective.gradients import Gradients, LoopError, StepTotals, StepVote
from swell.train.collective.group import Group
from swell.train.collective.norms import StatisticsError
from swell.train.collective.sharded import ShardedGradients
from swell.train.data.sample_schedule import SampleSchedule, Share


class Net(nn.Module):
    """`side` has a gradient only where a sample is positive, `idle` never has one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.main = nn.Linear(2, 1, dtype=torch.float64)
        self.side = nn.Parameter(torch.ones(1, dtype=torch.float64))
        self.idle = nn.Parameter(torch.ones(4, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.main(x).square().mean()
        return y + (self.side * x.relu()).mean() if bool((x > 0).any()) else y


class Alone(Group):
    """A group of one."""

    def __init__(self) -> None:
        self.rank, self.num_workers = 0, 1

    def check(self) -> None:
        pass

    def sum_all(self, tensor: torch.Tensor) -> None:
        pass

    def run(self, collective: Callable[[], object]) -> None:
        raise AssertionError("there is no other to do it with")


class PackedError(Exception):
    """The buffer is there, and it is not summed yet."""


class Pretended(Alone):
    """One of several, whose sum is made by hand."""

    def __init__(self, num_workers: int, sum_all: Callable[[torch.Tensor], object]) -> None:
        self.rank, self.num_workers = 0, num_workers
        self._sum_all = sum_all

    def sum_all(self, tensor: torch.Tensor) -> None:
        self._sum_all(tensor)


def gradients_of(net: nn.Module) -> list[torch.Tensor | None]:
    return [None if parameter.grad is None else parameter.grad.clone() for parameter in net.parameters()]


def samples(num_samples: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(num_samples)
    return torch.randn(num_samples, 2, dtype=torch.float64, generator=generator)


def compute(
    net: Net,
    gradients: Gradients,
    share: Share,
    x: torch.Tensor,
    units: torch.Tensor | None = None,
) -> tuple[Share, torch.Tensor]:
    """All passes of a step but for the last one's end; returns the share, with its weights, and the loss.

    `units`: of each sample; the loss is a mean over them.
    """
    gradients.begin(share)
    for part in share.passes:
        is_last = part is share.passes[-1]
        if units is None:
            loss: torch.Tensor = net(x[part.indices])
            loss.backward()
        else:
            loss = mean_over(net, x[part.indices], units[part.indices])
            part = replace(part, weight=float(units[part.indices].sum()))
        if not is_last:
            gradients.add(part, loss.detach())
            assert not any(grad is not None for grad in gradients_of(net))
    return share if units is None else share.weighted(part), loss.detach()


def mean_over(net: Net, x: torch.Tensor, units: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = (units * net.main(x).square().squeeze(1)).sum() / units.sum()
    loss.backward()
    return loss


def reduce_all(
    num_workers: int, course: SampleSchedule, bound: int | None, votes: int, units: torch.Tensor | None = None
) -> list[tuple[Net, StepTotals]]:
    """What a group does, in one process: each packs, all is summed, each unpacks."""
    packed: list[torch.Tensor] = []

    def pack(flat: torch.Tensor) -> None:
        packed.append(flat.clone())
        raise PackedError

    def work(rank: int, sum_all: Callable[[torch.Tensor], object]) -> tuple[Net, StepTotals]:
        net = Net()
        gradients = Gradients(net)
        share = course.share(0, rank, num_workers, bound)
        share, loss = compute(net, gradients, share, samples(course.num_samples), units)
        members = Pretended(num_workers, sum_all) if num_workers > 1 else Alone()
        return net, gradients.reduce(share, loss, StepVote(rank < votes, rank == 1), members)

    for rank in range(num_workers if num_workers > 1 else 0):
        with pytest.raises(PackedError):
            work(rank, pack)
    return [work(rank, lambda flat: flat.copy_(reduce(torch.add, packed))) for rank in range(num_workers)]


def first_order(num_samples: int) -> list[int]:
    """All samples of the first epoch, in its order."""
    order = SampleSchedule(num_samples, num_samples, True, False)._order(0)
    assert order is not None
    return list(order[:])


def assert_equal_to_one_pass(
    net: Net, tally: StepTotals, num_samples: int, units: torch.Tensor | None = None
) -> None:
    assert tally.has_weight == (units is None or bool(units.any()))
    if not tally.has_weight:
        assert tally.loss == 0 and not any(grad is not None for grad in gradients_of(net))
        return
    whole, order = Net(), first_order(num_samples)
    x = samples(num_samples)[order]
    expected: torch.Tensor = whole(x) if units is None else mean_over(whole, x, units[order])
    if units is None:
        expected.backward()
    assert tally.loss.item() == pytest.approx(expected.item())
    for ours, theirs in zip(gradients_of(net), gradients_of(whole), strict=True):
        assert (ours is None) == (theirs is None)
        assert ours is None or theirs is None or torch.allclose(ours, theirs, rtol=1e-10)


#: What each sample counts in a loss that is a mean over these, such as tokens.
counts_of_units = st.lists(st.integers(0, 3), min_size=1, max_size=12).map(
    lambda counts: torch.tensor(counts, dtype=torch.float64)
)


@pytest.mark.slow
@given(counts_of_units, st.booleans(), st.integers(1, 8), st.none() | st.integers(1, 5))
def test_equal_to_one_process_with_one_pass(
    units: torch.Tensor, has_weights: bool, num_workers: int, bound: int | None
) -> None:
    num_samples, weights = len(units), units if has_weights else None
    course = SampleSchedule(num_samples, num_samples, True, False)
    for net, tally in reduce_all(num_workers, course, bound, num_workers // 2, weights):
        assert_equal_to_one_pass(net, tally, num_samples, weights)
        assert (tally.num_votes, tally.is_stop) == (num_workers // 2, num_workers > 1)


def test_weights_of_some_workers_only_are_refused() -> None:
    net = Net()
    share = SampleSchedule(2, 2, False, False).share(0, 0, 2)
    loss = net(samples(2)[:1])
    loss.backward()

    weighted = share.weighted(replace(share.passes[0], weight=2.0))
    with pytest.raises(LoopError, match=r"some workers give run\.backward\(loss\) a weight"):
        Gradients(net).reduce(weighted, loss.detach(), StepVote(), Pretended(2, lambda flat: None))


def test_a_borrowed_sample_counts_nothing_even_if_its_loss_is_infinite() -> None:
    net = Net()
    net.main.weight.grad = torch.full((1, 2), torch.inf, dtype=torch.float64)
    share, gradients = SampleSchedule(1, 1, False, False).share(0, 0, 2), Gradients(net)
    packed: list[torch.Tensor] = []
    assert share.num_local == 0
    gradients.begin(share)
    with pytest.raises(LoopError, match="no parameter has a gradient"):  # no other has a gradient
        gradients.reduce(share, torch.tensor(torch.inf), StepVote(), Pretended(2, packed.append))
    assert not packed[0].any()


def test_a_gradient_that_only_a_borrowed_sample_has_is_taken_away() -> None:
    net = Net()
    share, gradients = SampleSchedule(1, 1, False, False).share(0, 0, 2), Gradients(net)

    def sum_all(flat: torch.Tensor) -> None:
        other = Net()
        with torch.enable_grad():
            other.main(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
        own = Gradients(other)
        own_share = SampleSchedule(1, 1, False, False).share(0, 1, 2)
        with pytest.raises(PackedError):
            own.reduce(own_share, torch.tensor(1.0), StepVote(), Pretended(2, lambda sent: give(flat, sent)))

    def give(flat: torch.Tensor, sent: torch.Tensor) -> None:
        flat += sent
        raise PackedError

    gradients.begin(share)
    net(torch.ones(1, 2, dtype=torch.float64)).backward()
    assert net.side.grad is not None
    gradients.reduce(share, torch.tensor(1.0), StepVote(), Pretended(2, sum_all))
    assert net.side.grad is None
    assert net.main.weight.grad is not None


class Normed(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.norm(x) * self.weight
        return y.square().mean()


Kind = type[Gradients]
KINDS: list[Kind] = [Gradients, ShardedGradients]


def train_two_steps(kind: Kind, net: nn.Module, num_shards: int) -> None:
    """Two steps of six samples each, on one worker, in passes of two samples or in `num_shards` shards."""
    is_sharded = kind is ShardedGradients
    course = SampleSchedule(12, 6, False, False, num_shards=num_shards if is_sharded else None)
    bound = None if is_sharded else 6 // num_shards
    gradients = kind(net)
    x = torch.randn(12, 2, 3, generator=torch.Generator().manual_seed(1))
    for step in range(2):
        share = course.share(step, 0, 1, bound)
        gradients.begin(share)
        for part in share.passes:
            net.zero_grad()
            loss = net(x[part.indices])
            loss.backward()
            if part is not share.passes[-1]:
                gradients.add(part, loss.detach())
        gradients.reduce(share, loss.detach(), StepVote(), Alone())


def test_shards_refuse_a_buffer_that_nobody_averages() -> None:
    class Counting(Normed):
        constant: torch.Tensor
        seen: torch.Tensor

        def __init__(self) -> None:
            super().__init__(nn.Identity())
            self.register_buffer("constant", torch.ones(1))
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen += len(x)
            return super().forward(x * self.constant)

    train_two_steps(Gradients, Counting(), num_shards=3)
    with pytest.raises(StatisticsError, match="buffer 'seen'"):
        train_two_steps(ShardedGradients, Counting(), num_shards=3)


def test_low_precision_is_summed_in_float32() -> None:
    net = nn.Linear(3, 1).to(torch.bfloat16)
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(2)).to(torch.bfloat16)
    in_passes = SampleSchedule(8, 8, False, False).share(0, 0, 1, 2)
    in_shards = SampleSchedule(8, 8, False, False, num_shards=4).share(0, 0, 1)
    for gradients, share in (
        (Gradients(net), in_passes),
        (ShardedGradients(net), in_shards),
    ):
        gradients.begin(share)
        expected = torch.zeros(1, 3)
        for part in share.passes:
            net.zero_grad()
            loss = net(x[part.indices]).square().mean()
            loss.backward()
            assert net.weight.grad is not None
            expected += 0.25 * net.weight.grad.float()
            if part is not share.passes[-1]:
                gradients.add(part, loss.detach())
        gradients.reduce(share, loss.detach(), StepVote(), Alone())
        assert net.weight.grad is not None
        assert torch.allclose(net.weight.grad.float(), expected, rtol=1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_gradients_are_refused(kind: Kind) -> None:
    net = nn.Embedding(5, 2, sparse=True)
    share = SampleSchedule(2, 2, False, False, num_shards=2).share(0, 0, 1)
    gradients = kind(net)
    gradients.begin(share)
    net(torch.tensor([1])).sum().backward()
    with pytest.raises(TypeError, match="sparse=False"):
        gradients.add(share.passes[0], torch.tensor(0.0))
