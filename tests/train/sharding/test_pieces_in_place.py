"""Pieces of what a worker has already stay in their memory, and the kernel gets what lies around them."""

from __future__ import annotations

import ctypes
import mmap
import sys
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from swell.train.sharding.divided_block import DividedBlock
from swell.train.sharding.intervals import Interval, union
from swell.train.sharding.large_buffers import LargeBuffers
from swell.train.sharding.state_pieces import Forms, StatePieces
from swell.train.sharding.state_shard import StateShard

PAGE_ELEMENTS = mmap.PAGESIZE // 4
#: Elements of each parameter.
SIZES = (16 * PAGE_ELEMENTS, 100, 8 * PAGE_ELEMENTS)


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


def resident_pages(memory: torch.UntypedStorage) -> int:
    """Pages of a tensor's memory that are there, of those that are its own."""
    begin = -(-memory.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    num = (memory.data_ptr() + memory.nbytes() - begin) // mmap.PAGESIZE
    found = (ctypes.c_ubyte * num)()
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(begin), ctypes.c_size_t(num * mmap.PAGESIZE), found) == 0
    return sum(page & 1 for page in found)


Places = st.lists(st.integers(0, sum(SIZES)), min_size=2, max_size=8, unique=True).map(sorted)


@given(st.lists(Places, min_size=1, max_size=4))
def test_what_is_held_stays_whatever_is_given_back_around_it(changes: list[list[int]]) -> None:
    """Each change holds every second stretch between some places, as far as it was held before."""
    shard, whole = begin()
    pieces = shard.pieces
    forms = pieces.forms()
    for places in changes:
        asked = [pair for number, pair in enumerate(pairwise(places)) if number % 2 == 0]
        intervals = [both for each in asked for _, both in pieces.overlapping(each)]
        pieces = narrowed(pieces, shard, forms, intervals)
        pieces.give_back()
        assert pieces.intervals == union(intervals)
        for piece in pieces.pieces:
            for name, values in whole.items():
                assert torch.equal(piece.kept[name], values[piece.begin : piece.end])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere pieces are copied")
def test_a_smaller_piece_is_not_copied_and_holds_no_more_memory_than_it_needs() -> None:
    shard, _ = begin()
    old = shard.pieces
    first = old.pieces[0].kept["exp_avg"]
    before = resident_pages(first.untyped_storage())
    made = narrowed(old, shard, old.forms(), [(4 * PAGE_ELEMENTS, 8 * PAGE_ELEMENTS)])
    held = made.pieces[0].kept["exp_avg"]
    assert held.data_ptr() == first.data_ptr() + 4 * mmap.PAGESIZE
    assert resident_pages(first.untyped_storage()) == before, "others may still read it"
    made.give_back()
    assert resident_pages(first.untyped_storage()) <= 5


def test_parameters_that_a_script_may_see_are_copied() -> None:
    """It may have kept a reference to their memory, as `state_dict` gives it."""
    block = nn.Linear(PAGE_ELEMENTS, 8, bias=False)
    optimizer = torch.optim.Adam(block.parameters())
    block(torch.ones(PAGE_ELEMENTS)).sum().backward()
    optimizer.step()
    seen = block.state_dict()["weight"].view(-1)
    before = seen.clone()
    divided = DividedBlock(0, "block", block, list(block.parameters()), LargeBuffers())
    shard = StateShard(optimizer, [divided])
    old = shard.pieces
    shard.replace(narrowed(old, shard, old.forms(), [(0, 2 * PAGE_ELEMENTS)]), is_whole=False)
    assert torch.equal(seen, before)
    value = shard.pieces.pieces[0].value
    assert value is not None and torch.equal(value, before[: 2 * PAGE_ELEMENTS])
    assert value.untyped_storage().data_ptr() != seen.untyped_storage().data_ptr()


def test_memory_that_several_tensors_share_is_copied() -> None:
    shard, whole = begin()
    flat = torch.cat([whole["exp_avg"], whole["exp_avg_sq"]])
    state = shard.state_dict()["state"]
    num = sum(SIZES)
    begins = [0, SIZES[0], SIZES[0] + SIZES[1], num]
    for place, (first, last) in enumerate(pairwise(begins)):
        state[place]["exp_avg"] = flat[first:last]
        state[place]["exp_avg_sq"] = flat[num + first : num + last]
    parameters = shard.places.parameters
    old = StatePieces.of_whole(shard.places, {parameters[place]: kept for place, kept in state.items()})
    made = narrowed(old, shard, old.forms(), [(0, PAGE_ELEMENTS)])
    made.give_back()
    assert torch.equal(flat, torch.cat([whole["exp_avg"], whole["exp_avg_sq"]]))
    assert torch.equal(made.pieces[0].kept["exp_avg"], whole["exp_avg"][:PAGE_ELEMENTS])


def test_what_a_script_has_asked_for_is_copied() -> None:
    """A script that keeps its optimizer's `state_dict`, as of the best epoch, has the same tensors."""
    shard, whole = begin()
    [asked] = [shard._optimizer.state_dict()["state"][0]["exp_avg"]]
    old = shard.pieces
    shard.replace(narrowed(old, shard, old.forms(), [(0, PAGE_ELEMENTS)]), is_whole=False)
    assert torch.equal(asked, whole["exp_avg"][: SIZES[0]])


@pytest.mark.parametrize("how", ["the parameter", "its gradient", "every second element"])
def test_what_lies_where_something_else_may_is_copied(how: str) -> None:
    parameter = nn.Parameter(torch.rand(SIZES[0]))
    parameter.grad = torch.rand_like(parameter)
    apart = torch.rand(SIZES[0] // 2, 2)
    kept = {"the parameter": parameter.data, "its gradient": parameter.grad}.get(how)
    optimizer = torch.optim.SGD([parameter])
    shard = StateShard(optimizer)
    optimizer.state[parameter]["kept"] = parameter.data.clone() if kept is None else kept
    old = shard.pieces
    if kept is None:  # as a piece of an optimizer that keeps two numbers for each element side by side
        old = StatePieces(shard.places, [(0, SIZES[0] // 2)])
        old.pieces[0].kept["kept"] = kept = apart[:, 0]
    before = kept.clone()
    shard.replace(narrowed(old, shard, old.forms(), [(0, PAGE_ELEMENTS)]), is_whole=False)
    assert torch.equal(kept, before)


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
