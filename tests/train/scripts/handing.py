"""One of several workers that hand a training state on, in all ways and between all kinds of workers.

Arguments: a file for the group to meet at, rank, number of workers.
"""

import copy
import sys
from datetime import timedelta
from functools import cache
from itertools import combinations, product
from unittest.mock import patch

import msgspec
import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import FileStore
from torch.nn.utils import convert_conv2d_weight_memory_format

from swell.train.collective.group import Group
from swell.train.collective.peer_memory import NOWHERE
from swell.train.collective.pieces import Pieces
from swell.train.state import state_transfer
from swell.train.state.state_transfer import NO_STATE, MemberCard, hand_state, own_card
from swell.train.state.train_state import TrainState

path, rank, num_workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
Pieces.SMALL_BYTES, Pieces.PIECE_BYTES = 64, 101  # pieces that cut numbers in two, and lines that fill slowly


#: By rank.
PLACES = {"two hosts": "aabb", "hosts by turns": "abab", "one apart": "abbb", "no host twice": "abcd"}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # not contiguous
        self.convolution = convert_conv2d_weight_memory_format(nn.Conv2d(3, 8, 3), torch.channels_last)
        self.norm = nn.BatchNorm2d(8)  # counts in int64
        self.first = nn.Linear(8, 8)
        self.last = nn.Linear(8, 8)
        self.last.weight = self.first.weight
        self.coarse = nn.Parameter(torch.ones(7, dtype=torch.bfloat16))
        self.register_buffer("nothing", torch.empty(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.convolution(x)).mean(dim=(2, 3))
        y: torch.Tensor = self.last(self.first(x))
        return y.square().mean() + self.coarse.float().square().mean()


class Mine:
    """A user's object, with tensors of many kinds."""

    def __init__(self, seed: int) -> None:
        self.held = {
            "flag": torch.tensor(bool(seed % 2)),
            "complex": torch.full((3,), complex(seed, 1)),
            "across": (torch.arange(60.0) * seed).view(2, 30).T,
            "number": seed,
        }

    def state_dict(self) -> dict[str, object]:
        return self.held

    def load_state_dict(self, held: dict[str, object]) -> None:
        self.held = held


def begin(seed: int, num_steps: int) -> TrainState:
    torch.manual_seed(seed)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    state = TrainState(net, optimizer, scheduler, {"mine": Mine(seed)})
    for _ in range(num_steps):
        step(state)
    return state


def step(state: TrainState) -> None:
    x = torch.randn(5, 3, 6, 6, generator=torch.Generator().manual_seed(state.steps))
    state.optimizers[0].zero_grad()
    loss = state.model(x)
    loss.backward()
    state.apply(state.optimizers[0], loss.detach(), ())
    state.finish_batch(loss.detach())


@cache
def expected_after(num_steps: int) -> TrainState:
    """What those with a state have after so many steps. Not to be changed."""
    return begin(1, num_steps)


def assert_same(ours: TrainState, theirs: TrainState, what: object) -> None:
    (skeleton, tensors), (expected_skeleton, expected) = ours.encode(), theirs.encode()
    assert skeleton == expected_skeleton, what
    for tensor, other in zip(tensors, expected, strict=True):
        assert tensor.dtype == other.dtype, what
        assert torch.equal(tensor, other), what


def disguised(card: MemberCard, way: str) -> MemberCard:
    if way == "messages":
        return msgspec.structs.replace(card, place=NOWHERE)
    return msgspec.structs.replace(card, place=PLACES[way][rank]) if way in PLACES else card


def hand(holders: tuple[int, ...], kind: str, way: str) -> None:
    if rank in holders:
        state = begin(1, 3)
    elif kind == "behind":
        state = begin(1, 2)
        state.is_valid = True
    else:
        state = begin(10 + rank, 0)
    weight = state.model.get_parameter("first.weight")
    address = weight.data_ptr()
    card = disguised(own_card(state.steps if rank in holders else NO_STATE), way)
    cards = [card] * num_workers
    dist.all_gather_object(cards, card)
    hand_state(group, state, cards, holders)
    what = (holders, kind, way)
    assert_same(state, expected_after(3), what)
    assert state.is_valid or rank in holders
    assert not state.is_torn
    assert weight.data_ptr() == address, "parameters stay where the optimizer knows them"
    step(state)
    assert_same(state, expected_after(4), what)


def hand_past_one() -> None:
    """The last rank has a state of another shape, which it keeps; what all others get goes through it."""
    holders, others = (0,), (num_workers - 1,)
    state = begin(1, 3 if rank in holders else 0)
    if rank in others:
        state = TrainState(state.model, state.optimizers[0], None, {})
        state.is_valid = True
    own = copy.deepcopy(state.encode())
    cards = [MemberCard(NO_STATE)] * num_workers
    hand_state(group, state, cards, holders, others)
    if rank in others:
        (skeleton, tensors), (own_skeleton, own_tensors) = state.encode(), own
        assert skeleton == own_skeleton
        assert all(map(torch.equal, tensors, own_tensors))
    else:
        assert_same(state, expected_after(3), "past one")


store = FileStore(path, num_workers)
dist.init_process_group("gloo", store=store, rank=rank, world_size=num_workers, timeout=timedelta(seconds=30))
group = Group(torch.device("cpu"))
group.rank, group.num_workers = rank, num_workers
some = [holders for num in range(1, num_workers) for holders in combinations(range(num_workers), num)]
for case in product(some, ("new", "behind"), ("memory", "messages", *PLACES)):
    hand(*case)
with patch.object(state_transfer, "backend_of", lambda device: "nccl"):  # its way, by gloo's broadcast
    for case in product(some, ("new", "behind"), ("messages",)):
        hand(*case)
    if num_workers > 2:
        hand_past_one()
group.close()
print("all have the same state")
