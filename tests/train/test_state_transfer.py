"""A state that is handed on is the same everywhere, or it is not taken for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch.nn.utils import convert_conv2d_weight_memory_format

from swell.train.collective.group import Group, GroupBroken
from swell.train.state.drift import Replica
from swell.train.state.state_transfer import (
    NO_STATE,
    NOWHERE,
    MemberCard,
    hand_state,
    make_offer,
    own_place,
)
from swell.train.state.train_state import TrainState

NEWCOMER = MemberCard(NO_STATE, own_place())


class Peers:
    """The group of a worker of rank 1 whose peer, rank 0, is this very process."""

    device = torch.device("cpu")
    rank = 1
    num_workers = 2

    def __init__(self, holder: TrainState, gather: Callable[[int], list[int]]) -> None:
        self.gather = gather
        self._offer, self._tensors = make_offer(holder)

    def gather_bytes(self, content: bytes) -> list[bytes]:
        return [self._offer, content]

    def run(self, collective: object) -> None:
        raise GroupBroken("the peer is gone")


def made(value: float, steps: int) -> TrainState:
    net = nn.Linear(300, 300)
    nn.init.constant_(net.weight, value)
    state = TrainState(net, torch.optim.SGD(net.parameters(), lr=0.1), None, {})
    state.steps = steps
    return state


def weight_of(state: TrainState) -> torch.Tensor:
    return state.model.get_parameter("weight")


def take(
    state: TrainState,
    holder: TrainState,
    gather: Callable[[int], list[int]] = lambda number: [0, number],
    card: MemberCard = NEWCOMER,
) -> None:
    hand_state(cast(Group, Peers(holder, gather)), state, [MemberCard(7, own_place()), card], holders=[0])


def test_memory_of_another_place_is_not_read() -> None:
    holder, taker = made(1.0, steps=7), made(2.0, steps=0)
    for place in ("another", NOWHERE):
        with pytest.raises(GroupBroken):  # by messages, of which this group carries none
            take(taker, holder, card=MemberCard(NO_STATE, place=place))
        assert (weight_of(taker) == 2.0).all()


def test_a_model_that_loads_in_a_way_of_its_own_is_left_to_do_so() -> None:
    holder, taker = made(1.0, steps=7), made(2.0, steps=0)
    loaded: list[object] = []
    taker.model.register_load_state_dict_post_hook(lambda module, keys: loaded.append(module))
    take(taker, holder)
    assert loaded == [taker.model]
    assert torch.equal(weight_of(taker), weight_of(holder))


@pytest.mark.parametrize("options", [{"fused": True}, {"foreach": True}, {}], ids=str)
def test_channels_last_stays_so_in_what_the_optimizer_keeps(options: dict[str, Any]) -> None:
    """A fused optimizer takes the moments of other elements where they lie in another order."""

    def made() -> TrainState:
        torch.manual_seed(0)
        model = convert_conv2d_weight_memory_format(nn.Conv2d(3, 5, 2), torch.channels_last)
        return TrainState(model, torch.optim.Adam(model.parameters(), 0.1, **options), None, {})

    def step(state: TrainState) -> None:
        state.model(torch.arange(48.0).reshape(1, 3, 4, 4)).sin().sum().backward()
        state.optimizers[0].step()
        state.optimizers[0].zero_grad()

    ours, theirs = made(), made()
    step(ours)
    skeleton, tensors = ours.encode()
    theirs.load(skeleton, [tensor.clone(memory_format=torch.contiguous_format) for tensor in tensors])
    step(ours)
    step(theirs)
    assert Replica(ours).checksums() == Replica(theirs).checksums()
