"""A move that breaks: what a worker lends stays there for those that still read it."""

from __future__ import annotations

import gc
import weakref
from contextlib import suppress
from typing import Any, cast

import torch
from swell.train.sharding.layout import FailureDomains, ShardCard
from swell.train.sharding.shard_exchange import ShardExchange
from swell.train.sharding.shard_group import ShardGroup
from swell.train.sharding.state_pieces import KeptForm, StatePieces
from swell.train.sharding.state_shard import StateShard
from torch import nn

from swell.train.collective.group import Group, GroupBroken

NUM = 100  #: elements


class LoneGroup:
    """What of a group is asked for before anything is sent."""

    rank, num_workers, device = 0, 1, torch.device("cpu")


class BrokenTransfers:
    """This worker has all that it lacked when a peer dies, and another one still reads."""

    is_complete = True

    def __init__(self, old: StatePieces) -> None:
        self.old = old

    def carry_out(self, new: StatePieces) -> None:
        new.make_room(self.old.forms(), self.old)
        raise GroupBroken("a peer is gone")


def begin() -> tuple[ShardGroup, StateShard]:
    parameter = nn.Parameter(torch.zeros(NUM))
    optimizer = torch.optim.Adam([parameter])
    parameter.grad = torch.ones(NUM)
    optimizer.step()
    shard = StateShard(optimizer)
    return ShardGroup(cast(Group, LoneGroup()), shard, is_mirrored=False), shard


def test_what_is_lent_is_not_freed_before_the_next_group_has_formed() -> None:
    group, shard = begin()
    parts = StatePieces(shard.places, ((0, NUM // 4), (NUM // 2, NUM)))
    parts.make_room(shard.pieces.forms(), shard.pieces)
    shard.replace(parts, is_whole=False)
    old: Any = parts
    lent = weakref.ref(old.pieces[0].kept["exp_avg"])
    content = old.pieces[0].kept["exp_avg"].clone()
    made = StatePieces(shard.places, ((NUM // 4, NUM // 2),))
    with suppress(GroupBroken):
        group._fill(made, old, cast(ShardExchange, BrokenTransfers(old)))
    del old, made, parts
    gc.collect()
    there = lent()
    assert there is not None and torch.equal(there, content), "a peer that has not heard of it still reads it"
    del there
    assert not group.settle([ShardCard()], [FailureDomains()])
    gc.collect()
    assert lent() is None


def test_a_piece_that_stays_keeps_its_memory_and_takes_what_is_one_number_from_the_others() -> None:
    _, shard = begin()
    old = shard.pieces
    forms = old.forms()
    forms[0] = forms[0] | {"step": KeptForm("float32", True, 7.0)}
    made = StatePieces(shard.places, ((0, NUM),))
    made.make_room(forms, old)
    [was], [now] = old.pieces, made.pieces
    assert now.kept["exp_avg"].data_ptr() == was.kept["exp_avg"].data_ptr()
    assert float(now.kept["step"]) == 7.0 and float(was.kept["step"]) == 1.0


def test_what_a_script_may_see_is_copied_where_it_is_cut() -> None:
    """It may have kept its optimizer's `state_dict`, as of the best epoch."""
    _, shard = begin()
    asked = shard._optimizer.state_dict()["state"][0]["exp_avg"]
    before, half = asked.clone(), StatePieces(shard.places, ((0, NUM // 2),))
    half.make_room(shard.pieces.forms(), shard.pieces)
    shard.replace(half, is_whole=False)
    assert torch.equal(asked, before)
    [held] = shard.pieces.pieces
    assert held.kept["exp_avg"].untyped_storage().nbytes() == 4 * NUM // 2, "no more than it needs"
