"""What a worker has of its next pieces already is kept."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from swell.train.sharding.intervals import Interval, union
from swell.train.sharding.state_pieces import Forms, StatePieces
from swell.train.sharding.state_shard import StateShard

#: Elements of each parameter.
SIZES = (1600, 100, 800)


def begin() -> tuple[StateShard, dict[str, torch.Tensor]]:
    """A shard that has everything, and what it has, by name in the flat sequence."""
    parameters = [nn.Parameter(torch.rand(size)) for size in SIZES]
    optimizer = torch.optim.Adam(parameters)
    for parameter in parameters:
        parameter.grad = torch.rand_like(parameter)
    optimizer.step()
    state = [optimizer.state[parameter] for parameter in parameters]
    return StateShard(optimizer), {
        name: torch.cat([kept[name] for kept in state]).clone() for name in ("exp_avg", "exp_avg_sq")
    }


def narrowed(old: StatePieces, shard: StateShard, forms: Forms, intervals: list[Interval]) -> StatePieces:
    made = StatePieces(shard.places, intervals)
    made.make_room(forms, old)
    return made


Places = st.lists(st.integers(0, sum(SIZES)), min_size=2, max_size=8, unique=True).map(sorted)


@given(st.lists(Places, min_size=1, max_size=4))
def test_what_is_held_stays_whatever_is_given_up_around_it(changes: list[list[int]]) -> None:
    """Each change holds every second stretch between some places, as far as it was held before."""
    shard, whole = begin()
    pieces = shard.pieces
    forms = pieces.forms()
    for places in changes:
        asked = [pair for number, pair in enumerate(pairwise(places)) if number % 2 == 0]
        intervals = [both for each in asked for _, both in pieces.overlapping(each)]
        pieces = narrowed(pieces, shard, forms, intervals)
        assert pieces.intervals == union(intervals)
        for piece in pieces.pieces:
            for name, values in whole.items():
                assert torch.equal(piece.kept[name], values[piece.begin : piece.end])


def test_what_a_script_may_see_is_copied_where_it_is_cut() -> None:
    """It may have kept its optimizer's `state_dict`, as of the best epoch."""
    shard, whole = begin()
    asked = shard._optimizer.state_dict()["state"][0]["exp_avg"]
    old = shard.pieces
    shard.replace(narrowed(old, shard, old.forms(), [(0, SIZES[0] // 2)]), is_whole=False)
    assert torch.equal(asked, whole["exp_avg"][: SIZES[0]])
    [held] = shard.pieces.pieces
    assert held.kept["exp_avg"].untyped_storage().nbytes() == 4 * SIZES[0] // 2, "no more than it needs"


@pytest.mark.parametrize(
    "name", ["Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "Rprop"]
)
def test_an_owner_and_its_mirror_compute_the_same_wherever_their_pieces_lie(name: str) -> None:
    """One has a view at any offset, and the other memory of its own."""

    def stepped(offset: int) -> torch.Tensor:
        torch.manual_seed(0)
        num = 4099
        parameter = torch.empty(num + 16)[offset : offset + num].copy_(torch.rand(num))
        optimizer = getattr(torch.optim, name)([parameter])
        for _ in range(3):
            parameter.grad = torch.randn(num)
            optimizer.step()
            kept = optimizer.state[parameter]
            for key, value in kept.items():
                if value.dim():
                    kept[key] = torch.empty(num + 16)[offset : offset + num].copy_(value)
        return parameter

    aligned = stepped(0)
    assert all(torch.equal(stepped(offset), aligned) for offset in (1, 2, 3, 5, 7, 9, 15))
