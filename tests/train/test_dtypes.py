"""Parameters of each kind of number are summed, compared and handed on as in a loop of torch alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce

import pytest
import torch
from tests.eventually import PATIENCE_S
from tests.train.test_gradients import Alone
from torch import nn

from swell.train.collective.gradients import Gradients, LoopError, StepVote
from swell.train.collective.group import Group
from swell.train.collective.sharded import ShardedGradients
from swell.train.data.sample_schedule import SampleSchedule
from swell.train.runtime.run import mean_of

#: With what a gradient of each may be off by, against one of double precision.
KINDS = {
    torch.float16: 2e-3,
    torch.bfloat16: 2e-2,
    torch.float32: 1e-6,
    torch.float64: 1e-13,
    torch.complex64: 1e-6,
    torch.complex128: 1e-13,
}
BATCH = 8
X = torch.randn(BATCH, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(1))
#: One kind alone, or together with a wider or a real one.
of_each_mixture = pytest.mark.parametrize(
    "kinds",
    [*([kind] for kind in KINDS), [torch.complex64, torch.float32], [torch.float32, torch.complex128]],
    ids=str,
)


class Wire:
    """Between workers that are threads. It adds in the order of their ranks."""

    def __init__(self, num_workers: int) -> None:
        self.ends = [End(self, rank, num_workers) for rank in range(num_workers)]
        self.barrier = threading.Barrier(num_workers, self._sum, timeout=PATIENCE_S)

    def _sum(self) -> None:
        total = reduce(torch.add, [end.given.clone() for end in self.ends])
        for end in self.ends:
            end.given.copy_(total)


class End(Group):
    """The group, as one worker has it."""

    given: torch.Tensor

    def __init__(self, wire: Wire, rank: int, num_workers: int) -> None:
        self.rank, self.num_workers = rank, num_workers
        self._wire = wire

    def sum_all(self, tensor: torch.Tensor) -> None:
        self.given = tensor
        self._wire.barrier.wait()

    def run(self, collective: Callable[[], object]) -> None:
        raise AssertionError("only sums are wanted")


class Net(nn.Module):
    """A layer of each kind of number, the results of which are multiplied."""

    def __init__(self, kinds: list[torch.dtype]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(2)
        drawn = [torch.randn(5, 3, dtype=torch.complex128, generator=generator) for _ in kinds]
        self.weights = nn.ParameterList(
            nn.Parameter(as_kind(weight, kind)) for weight, kind in zip(drawn, kinds, strict=True)
        )
        self.idle = nn.Parameter(torch.ones(3, dtype=kinds[0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.ones(len(x), 5, dtype=torch.complex128)
        for weight in self.weights:
            y = y * (x @ weight.to(torch.complex128).T)
        return (y - (1 - 2j)).abs().pow(2).mean()


def as_kind(tensor: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    return tensor.to(kind) if kind.is_complex else tensor.real.to(kind)


def whole(kinds: list[torch.dtype]) -> list[torch.Tensor]:
    """The gradients of one process without Swell."""
    net = Net(kinds)
    net(X).backward()
    return [weight.grad for weight in net.weights]


def assert_near(net: Net, kinds: list[torch.dtype]) -> None:
    assert net.idle.grad is None
    for weight, kind, wanted in zip(net.weights, kinds, whole(kinds), strict=True):
        assert weight.grad is not None and weight.grad.dtype == wanted.dtype
        gap = (weight.grad - wanted).abs().max() / wanted.abs().max()
        assert gap <= max(KINDS[kind], max(map(KINDS.__getitem__, kinds)) if torch.float32 in kinds else 0.0)


def work(end: End | Alone, kinds: list[torch.dtype], num_shards: int | None = None) -> Net:
    """Some steps of one worker on the same samples; each third worker computes in small passes."""
    net, course = Net(kinds), SampleSchedule(BATCH, BATCH, False, False, num_shards=num_shards)
    gradients = Gradients(net) if num_shards is None else ShardedGradients(net)
    most = 2 if end.rank % 3 == 0 and num_shards is None else None
    for _ in range(5):
        share = course.share(0, end.rank, end.num_workers, most)
        gradients.begin(share)
        for part in share.passes:
            net.zero_grad()
            loss = net(X[part.indices])
            loss.backward()
            if part is not share.passes[-1]:
                gradients.add(part, loss.detach())
        gradients.reduce(share, loss.detach(), StepVote(), end)
    return net


@of_each_mixture
def test_a_sum_is_the_gradient_of_one_process(kinds: list[torch.dtype]) -> None:
    """Of several workers, of the passes of one, and of its shards."""
    wire = Wire(3)
    with ThreadPoolExecutor(3) as threads:
        nets = [*threads.map(lambda end: work(end, kinds), wire.ends)]
    for net in (*nets, work(Alone(), kinds), work(Alone(), kinds, num_shards=4)):
        assert_near(net, kinds)


def test_a_complex_loss_is_refused_before_its_imaginary_part_is_dropped() -> None:
    with pytest.raises(LoopError, match=r"give it loss.real or loss.abs\(\)"):
        mean_of(torch.tensor(1 + 2j))
