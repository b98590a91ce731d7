"""What a worker has of its next pieces already is kept."""

from __future__ import annotations

import torch
from torch import nn

from swell.train.sharding.intervals import Interval
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


def test_what_a_script_may_see_is_copied_where_it_is_cut() -> None:
    """It may have kept its optimizer's `state_dict`, as of the best epoch."""
    shard, whole = begin()
    asked = shard._optimizer.state_dict()["state"][0]["exp_avg"]
    old = shard.pieces
    shard.replace(narrowed(old, shard, old.forms(), [(0, SIZES[0] // 2)]), is_whole=False)
    assert torch.equal(asked, whole["exp_avg"][: SIZES[0]])
    [held] = shard.pieces.pieces
    assert held.kept["exp_avg"].untyped_storage().nbytes() == 4 * SIZES[0] // 2, "no more than it needs"
