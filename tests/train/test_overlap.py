"""What is begun during the backward pass has the bits of what is summed after it, whatever a script does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import reduce
from pickle import dumps

import pytest
import torch
from hypothesis import given, note, settings
from hypothesis import strategies as st
from torch import nn

from swell.train.collective.bucketed import BucketedGradients
from swell.train.collective.buckets import cut_buckets
from swell.train.collective.early import NUM_WATCHED
from swell.train.collective.fast import FastGradients
from swell.train.collective.gradients import FusedGradients, LoopError, StepVote
from swell.train.data.sample_schedule import SampleSchedule

LIMIT_S = 30.0
NUM_STEPS = NUM_WATCHED + 4


class Wire:
    """Between workers that are threads. It adds in the order of their ranks, what each has begun with."""

    def __init__(self, num_workers: int) -> None:
        self.ends = [End(self, rank, num_workers) for rank in range(num_workers)]
        self.barrier = threading.Barrier(num_workers, self._sum, timeout=LIMIT_S)

    def _sum(self) -> None:
        for begun in zip(*(end.begun for end in self.ends), strict=True):
            total = reduce(torch.add, [content for _, content in begun])
            for tensor, content in begun:
                assert torch.equal(tensor.view(torch.int32), content.view(torch.int32)), "written meanwhile"
                tensor.copy_(total)
        for end in self.ends:
            end.begun.clear()


class End:
    """See `Members`."""

    num_hosts = 2

    def __init__(self, wire: Wire, rank: int, num_workers: int) -> None:
        self.rank, self.num_workers = rank, num_workers
        self.begun: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.is_forsaken = False
        self._wire = wire

    def begin_sum(self, tensor: torch.Tensor) -> None:
        self.begun.append((tensor, tensor.clone()))

    def end_sums(self) -> None:
        self._wire.barrier.wait()

    def sum_all(self, tensor: torch.Tensor) -> None:
        self.begin_sum(tensor)
        self.end_sums()

    def forsake(self) -> None:
        self.is_forsaken = True

    def run(self, collective: Callable[[], object]) -> None:
        raise AssertionError("only sums are wanted")


class Net(nn.Module):
    """`used` names the weights of this forward pass, in order; one may come twice."""

    def __init__(self, sizes: Sequence[int], dtypes: Sequence[torch.dtype] = ()) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(len(sizes))
        dtypes = [*dtypes, *[torch.float32] * (len(sizes) - len(dtypes))]
        self.weights = nn.ParameterList(
            nn.Parameter(torch.randn(size, generator=generator).to(dtype))
            for size, dtype in zip(sizes, dtypes, strict=True)
        )

    def forward(self, x: torch.Tensor, used: Sequence[int]) -> torch.Tensor:
        y = x.clone()
        for place in used:
            y = (y.unsqueeze(1) * self.weights[place].float()).sin().sum(dim=1)
        return y.square().mean()


Habit = Callable[[Net, torch.Tensor, Sequence[int]], torch.Tensor]


def usual(net: Net, x: torch.Tensor, used: Sequence[int]) -> torch.Tensor:
    net.zero_grad()
    loss: torch.Tensor = net(x, used)
    loss.backward()
    return loss


def zeroing(net: Net, x: torch.Tensor, used: Sequence[int]) -> torch.Tensor:
    net.zero_grad(set_to_none=False)
    loss: torch.Tensor = net(x, used)
    loss.backward()
    return loss


def adding_up(net: Net, x: torch.Tensor, used: Sequence[int]) -> torch.Tensor:
    """It never takes gradients away."""
    loss: torch.Tensor = net(x, used)
    loss.backward()
    return loss


def backward_twice(net: Net, x: torch.Tensor, used: Sequence[int]) -> torch.Tensor:
    loss = usual(net, x, used)
    net(2 * x, used[:1]).backward()
    return loss


def penalizing(net: Net, x: torch.Tensor, used: Sequence[int]) -> torch.Tensor:
    net.zero_grad()
    loss: torch.Tensor = net(x, used)
    weights = [net.weights[place] for place in set(used)]
    norms = [part.square().sum() for part in torch.autograd.grad(loss, weights, create_graph=True)]
    (loss + torch.stack(norms).sum()).backward()
    return loss


def by_hand(net: Net, x: torch.Tensor, used: Sequence[int]) -> torch.Tensor:
    net.zero_grad()
    loss: torch.Tensor = net(x, used)
    weights = [net.weights[place] for place in set(used)]
    for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
        weight.grad = gradient
    return loss


def clipping(net: Net, x: torch.Tensor, used: Sequence[int]) -> torch.Tensor:
    loss = usual(net, x, used)
    nn.utils.clip_grad_norm_(net.parameters(), 0.1)
    return loss


def clamping_unseen(net: Net, x: torch.Tensor, used: Sequence[int]) -> torch.Tensor:
    """No version counter tells of it."""
    loss = usual(net, x, used)
    for weight in net.parameters():
        if weight.grad is not None:
            weight.grad.data.clamp_(-0.01, 0.01)
    return loss


def dropping(net: Net, x: torch.Tensor, used: Sequence[int]) -> torch.Tensor:
    loss = usual(net, x, used)
    net.weights[used[-1]].grad = None
    return loss


def freezing(net: Net, x: torch.Tensor, used: Sequence[int]) -> torch.Tensor:
    """As a generator and a discriminator in turn."""
    net.zero_grad()
    net.weights[used[0]].requires_grad_(False)
    loss: torch.Tensor = net(x, [*used, *range(len(net.weights))])
    if loss.requires_grad:
        loss.backward()
    net.weights[used[0]].requires_grad_(True)
    net(x, used[:1]).backward()
    return loss


HABITS: list[Habit] = [
    usual,
    zeroing,
    backward_twice,
    penalizing,
    by_hand,
    clipping,
    clamping_unseen,
    dropping,
    freezing,
]


@dataclass(frozen=True)
class Plan:
    """What some workers do for some steps."""

    sizes: list[int]
    dtypes: list[torch.dtype]
    habits: list[list[Habit]]  #: by step and rank
    used: list[list[int]]  #: by step
    bounds: list[int | None]  #: by rank: `max_local_batch`
    batch: int
    weights: list[list[float] | None]  #: by step: of the passes, by rank, if they have any


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    num_workers = draw(st.integers(2, 4))
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=6))
    places = st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=4)
    common = draw(places)
    mostly = draw(st.sampled_from([usual, zeroing]))
    weights = st.lists(st.sampled_from([0.0, 1.0, 3.0]), min_size=num_workers, max_size=num_workers)
    odd = st.sampled_from([mostly, mostly, mostly, *HABITS])
    if draw(st.integers(0, 9)) == 0:  # of all workers, or the stale gradients are some workers' own
        odd = st.just(adding_up)
    return Plan(
        sizes=sizes,
        dtypes=draw(st.lists(st.sampled_from([torch.float32, torch.bfloat16]), max_size=len(sizes))),
        habits=[draw(st.lists(odd, min_size=num_workers, max_size=num_workers)) for _ in range(NUM_STEPS)],
        used=[draw(st.just(common) | places) for _ in range(NUM_STEPS)],
        bounds=draw(st.lists(st.sampled_from([None, None, 1]), min_size=num_workers, max_size=num_workers)),
        batch=draw(st.integers(1, 2 * num_workers)),
        weights=[draw(st.none() | st.none() | weights) for _ in range(NUM_STEPS)],
    )


Kind = FusedGradients | BucketedGradients
Made = Callable[[nn.Module], Kind]


def follow(plan: Plan, make: Made, end: End) -> list[torch.Tensor]:
    """Losses and weights of one worker, after each step."""
    net = Net(plan.sizes, plan.dtypes)
    gradients = make(net)
    course = SampleSchedule(NUM_STEPS * plan.batch, plan.batch, False, False)
    x = torch.randn(course.num_samples, generator=torch.Generator().manual_seed(7))
    seen: list[torch.Tensor] = []
    for step in range(NUM_STEPS):
        share = course.share(step, end.rank, end.num_workers, plan.bounds[end.rank])
        gradients.begin(share, end)
        for part in share.passes:
            loss = plan.habits[step][end.rank](net, x[part.indices], plan.used[step]).detach()
            is_last, weights = part is share.passes[-1], plan.weights[step]
            if weights is not None:
                part = replace(part, weight=weights[end.rank])
                share = share.weighted(part) if is_last else share
            if not is_last:
                gradients.add(part, loss)
        try:
            tally = gradients.reduce(share, loss, StepVote(vote=end.rank == 0), end)
        except LoopError:
            return seen  # all have dropped their gradients
        assert tally.num_votes == 1
        with torch.no_grad():
            for weight in net.parameters():
                if weight.grad is not None:
                    weight.sub_(0.05 * weight.grad)
        seen += [tally.loss, *(weight.detach().clone() for weight in net.parameters())]
    return seen


def train(make: Made, plan: Plan) -> list[list[torch.Tensor]]:
    """What each worker sees."""
    wire = Wire(len(plan.bounds))

    def work(end: End) -> list[torch.Tensor]:
        try:
            return follow(plan, make, end)
        except BaseException:
            wire.barrier.abort()  # the others need not wait
            raise

    with ThreadPoolExecutor(len(wire.ends)) as threads:
        futures = [threads.submit(work, end) for end in wire.ends]
    for error in filter(None, (future.exception() for future in futures)):
        if not isinstance(error, threading.BrokenBarrierError):
            raise error
    return [future.result() for future in futures]


def in_buckets(num_numbers: int) -> Made:
    class Small(BucketedGradients):
        bucket_bytes = 4 * num_numbers

    return Small


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(plans(), st.integers(1, 12))
def test_bits_do_not_depend_on_what_was_begun_early(plan: Plan, num_numbers: int) -> None:
    note(repr(plan))
    expected, found = train(FusedGradients, plan), train(in_buckets(num_numbers), plan)
    for ours, theirs in zip(found, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert torch.equal(one.nan_to_num(), other.nan_to_num())


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 20))
def test_buckets_are_all_numbers_from_the_last_to_the_first(sizes: list[int], full: int) -> None:
    buckets = cut_buckets(sizes, full)
    places = [place for bucket in reversed(buckets) for place in bucket.parameters]
    numbers = [number for bucket in reversed(buckets) for number in range(sum(sizes))[bucket.numbers]]
    assert (places, numbers) == (list(range(len(sizes))), list(range(sum(sizes))))
    assert all(bucket.numbers.stop > bucket.numbers.start for bucket in buckets) or not sum(sizes)
    for bucket in buckets[:-1]:
        held = [sizes[place] for place in bucket.parameters]
        assert sum(held) >= full > sum(held[1:])
        assert bucket.numbers.stop - bucket.numbers.start == sum(held)


X = torch.tensor([0.5, -1.0])
#: One of two samples, of a worker of two.
SHARE = SampleSchedule(4, 4, False, False).share(0, 0, 2)


class Echo(End):
    """A worker whose peers have what it has, and who is never waited for."""

    def __init__(self) -> None:
        super().__init__(Wire(1), 0, 2)

    def end_sums(self) -> None:
        self.begun.clear()


def step(net: Net, gradients: Kind | FastGradients, members: Echo, habit: Habit = usual) -> int:
    """One step of two samples; how many sums had begun before its end."""
    gradients.begin(SHARE, members)
    loss = habit(net, X, range(len(net.weights))).detach()
    num_begun = len(members.begun)
    gradients.reduce(SHARE, loss, StepVote(), members)
    return num_begun


def trusted(net: Net, gradients: Kind | FastGradients) -> Echo:
    """After the steps that are watched."""
    members = Echo()
    assert [step(net, gradients, members) for _ in range(1 + NUM_WATCHED)] == [0] * (1 + NUM_WATCHED)
    return members


def test_after_some_steps_all_buckets_begin_in_the_backward_pass() -> None:
    net = Net([3, 2, 2])
    gradients = in_buckets(2)(net)
    assert step(net, gradients, trusted(net, gradients)) == 3


@pytest.mark.parametrize("habit", [backward_twice, clipping, clamping_unseen, dropping])
def test_a_script_that_changes_gradients_later_is_not_trusted_again(habit: Habit) -> None:
    net = Net([3, 2, 2])
    gradients = in_buckets(2)(net)
    members = trusted(net, gradients)
    assert step(net, gradients, members, habit) == 3
    assert [step(net, gradients, members) for _ in range(1 + NUM_WATCHED)] == [0] * (1 + NUM_WATCHED)


def test_what_never_has_a_gradient_is_not_waited_for() -> None:
    net = Net([3, 2, 2])
    net.idle = nn.Parameter(torch.ones(2))  # the last one, so that it is in the first bucket
    gradients = in_buckets(2)(net)
    assert step(net, gradients, trusted(net, gradients)) == 4


def test_a_step_that_is_left_with_sums_under_way_is_forsaken_once() -> None:
    net = Net([3, 2, 2])
    gradients = in_buckets(2)(net)
    members = trusted(net, gradients)
    for is_forsaken in (True, False):
        members.is_forsaken = False
        gradients.begin(SHARE, members)
        usual(net, X, range(3))
        gradients.abandon()
        assert members.is_forsaken == is_forsaken
        members.begun.clear()


def test_a_model_can_be_copied_and_saved_while_it_is_watched() -> None:
    net = Net([3, 2, 2])
    gradients = in_buckets(2)(net)
    members = trusted(net, gradients)
    copy = deepcopy(net)
    assert dumps(net)
    gradients.begin(SHARE, members)
    usual(copy, X, range(3))
    assert not members.begun  # it is none of the model's


def test_workers_of_one_host_sum_in_one_piece() -> None:
    net = Net([3, 2, 2])
    gradients = FastGradients(net)
    members = trusted(net, gradients)
    assert step(net, gradients, members) == 1
    members.num_hosts = 1
    sizes: list[int] = []

    def end_sums() -> None:
        sizes.extend(len(tensor) for tensor, _ in members.begun)
        members.begun.clear()

    members.end_sums = end_sums  # type: ignore[method-assign]
    assert step(net, gradients, members) == 0
    assert sizes == [gradients.num_bytes // 4]
    members.num_hosts = 2
    assert step(net, gradients, members) == 0  # watched again
