"""What the workers of a group do together where each has a part of the training state.

In a step all sum the gradients, as ever, and then vote: who passes the vote knows that all others have
complete gradients. Only then each updates its own part, and hands the new parameters round. A worker that
failed in the vote waits for the next group, and goes on with the update if another has passed. So all have
made the same steps, whenever one of them was killed.

The group changes in two moves: those that leave hand on their parts while they are still in the old group,
and those that come are given theirs in the new one.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

from swell.train.collective.group import Group, GroupBroken, await_all
from swell.train.collective.pieces import Pieces
from swell.train.sharding.block_exchange import BlockExchange
from swell.train.sharding.large_buffers import trim_heap
from swell.train.sharding.layout import (
    FailureDomains,
    Interval,
    Intervals,
    Layout,
    ShardCard,
    common,
    covers,
    lay_out,
    plan_transfers,
    union,
    without,
)
from swell.train.sharding.shard_exchange import ShardExchange
from swell.train.sharding.state_pieces import ParameterLayout, StatePieces
from swell.train.sharding.state_shard import StateShard
from swell.wire.whole_files import make_folder


def scratch_room(folder: Path, size: int, dtype: torch.dtype) -> torch.Tensor:
    """Return a flat tensor in a file in `folder`; in memory where the disk has no room for it twice.

    A whole state that is gathered to be saved may be larger than the memory that a worker may have: the
    kernel writes the pages of a file out where memory is short.
    """
    num_bytes = size * dtype.itemsize
    with suppress(OSError):  # then there is still the memory
        make_folder(folder)
        disk = os.statvfs(folder)
        if 0 < 2 * num_bytes <= disk.f_bavail * disk.f_frsize:
            with tempfile.TemporaryFile(dir=folder) as file:
                os.posix_fallocate(file.fileno(), 0, num_bytes)  # a full disk would kill who writes
                return torch.frombuffer(mmap.mmap(file.fileno(), num_bytes), dtype=dtype, count=size)
    return torch.empty(size, dtype=dtype, device="cpu")


class ShardGroup:
    """One worker's part in it."""

    def __init__(
        self,
        group: Group,
        shard: StateShard,
        is_mirrored: bool,
        meet_again: Callable[[GroupBroken], object] = lambda broken: None,
    ) -> None:
        """`meet_again`: see `BlockExchange`."""
        self._group, self._shard, self._is_mirrored = group, shard, is_mirrored
        self._meet_again, self._is_amid = meet_again, False
        self._owned: Intervals = shard.places.everything
        shard.loads_to_host = True
        self._layout = Layout((self._owned,), ((),))  # of the present group
        self._domains: Sequence[FailureDomains] = (FailureDomains(),)  # by rank, of the present group
        self._is_trimmed = False  # the heap, since the state was laid out
        self._broken_off: ShardExchange | None = None  # others may still read what they lend
        self.is_voting = False  #: see `ShardCard`
        self.is_spread = True

    @property
    def is_divided(self) -> bool:
        """Whether there are others with parts of the state."""
        return self._group.num_workers > 1

    def card(self, has_state: bool) -> ShardCard:
        """What this worker brings to a group; `has_state`: it has made the job's steps."""
        if not has_state:
            return ShardCard()
        pieces = self._shard.pieces
        owned = self._owned or pieces.intervals  # of a checkpoint that was read, all
        return ShardCard(owned, pieces.stretches, self.is_voting, self.is_spread)

    # ---------------------------------------------------------------- a step
    def vote(self, compares: bool) -> bool:
        """See that all have the gradients of the step.

        Args:
            compares: owners compare with mirrors what the optimizer keeps; the same at all.

        Returns:
            Whether mirrors are equal, or were not compared.

        Raises GroupBroken: it is not known whether the others have passed.
        """
        self.is_voting = True
        if compares and not self._is_trimmed:
            trim_heap()  # not while the group changes: it uses what is free, and training waits
            self._is_trimmed = True
        difference = torch.zeros(1, dtype=torch.int64, device=self._group.device)
        if compares and self._is_mirrored:
            difference += self._own_less_mirrored()
        self._group.sum_all(difference)
        return not difference.item()

    def _own_less_mirrored(self) -> torch.Tensor:
        """A checksum of this worker's part, less those of the mirrors that it has.

        Of all workers together that is 0, if all mirrors have what their owners have.
        """
        pieces, rank, device = self._shard.pieces, self._group.rank, self._group.device
        own, mirrored = self._layout.owned[rank], self._layout.mirrored[rank]
        return pieces.checksum(own, device) - pieces.checksum(mirrored, device)

    def renew_mirrors(self) -> None:
        """Give all mirrors what the owners have. Raises GroupBroken."""
        owned = self._layout.owned
        self._lay_out(owned, owned, range(len(owned)), self._domains)

    def spread(self) -> None:
        """Hand round the parameters that each owner has updated. Raises GroupBroken: some have not come."""
        self.is_spread = False
        parameters = self._shard.places.replicated
        updated = [each for each in parameters if each.requires_grad or each.grad is not None]
        self._spread(self._layout.owned, updated)
        self.is_spread = True

    def _spread(self, givers: Sequence[Intervals], parameters: Sequence[torch.Tensor]) -> None:
        """
        Args:
            givers: by rank, of which elements it gives the values; all of them together.
            parameters: that are handed round; the same at all workers.
        """
        cargos, wanted = [], {id(parameter) for parameter in parameters}
        for rank, intervals in enumerate(givers):
            pieces = [piece for interval in intervals for piece in self._shard.places.cut(interval)]
            of_wanted = [each for each in pieces if id(self._shard.places.parameters[each.place]) in wanted]
            tensors = [self._shard.places.elements(piece) for piece in of_wanted]
            cargos.append((rank, Pieces(tensors, self._group.device)))

        def broadcast_all() -> None:
            handles = [
                dist.broadcast(piece, rank, async_op=True) for rank, cargo in cargos for piece in cargo.pieces
            ]
            await_all(handles)

        self._group.run(broadcast_all)
        for rank, cargo in cargos:
            if rank != self._group.rank:
                cargo.unload()

    # ---------------------------------------------------------------- the group changes
    def hand_on(self, ranks: Sequence[int | None]) -> None:
        """Have members without a rank in the next group give their parts to the others, while all are here.

        Args:
            ranks: of the members of this group, in the next one.

        Raises:
            GroupBroken: a peer is gone.
        """
        staying = sorted((rank, old) for old, rank in enumerate(ranks) if rank is not None)
        if len(staying) == len(ranks) or not staying:
            return
        takers = [old for _, old in staying]
        self._lay_out(self._layout.owned, self._layout.stretches(), takers, self._domains)

    def drop(self) -> None:
        """What this worker has is not the job's: it is about to be given a part, and has none until then."""
        self._owned = ()
        self._shard.replace(StatePieces(self._shard.places, ()), is_whole=False)

    def settle(self, cards: Sequence[ShardCard], domains: Sequence[FailureDomains]) -> bool:
        """Give each member of a new group its part of the state; False if parts of it are lost with others.

        Args:
            cards: by rank; of members that have not made the job's latest step, empty ones.
            domains: by rank.

        Raises:
            GroupBroken: a peer is gone.
        """
        held = [union(card.held) for card in cards]
        self._broken_off = None  # all that read here have come to this group, or are gone
        if not covers(held, self._shard.places.num_elements):
            return False
        owned = _apart([card.owned for card in cards])
        self._is_amid = not all(card.is_spread and not card.is_voting for card in cards)
        if self._is_amid:
            self.is_spread = False
            self._spread(_givers(owned, held), self._shard.places.replicated)
        self.is_spread, self._domains = True, domains
        self._lay_out(owned, [card.held for card in cards], range(len(cards)), domains)
        return True

    def _lay_out(
        self,
        owned: Sequence[Intervals],
        stretches: Sequence[Intervals],
        takers: Sequence[int],
        domains: Sequence[FailureDomains],
    ) -> None:
        """Move to a layout in which the ranks `takers` have parts.

        What this worker had before is dropped once all have got theirs.

        Args:
            stretches: by rank, what it has, cut as its pieces are.
        """
        held = [union(each) for each in stretches]
        mirror_domains = domains if self._is_mirrored else None
        layout = lay_out(self._shard.places.units, owned, held, takers, mirror_domains)
        rank, parameters = self._group.rank, self._shard.places
        is_whole = all(layout.held(taker) == parameters.everything for taker in takers) and rank in takers
        made, old = self._pieces_of(layout, is_whole), self._shard.pieces
        planned = plan_transfers(held, layout)
        if planned or made.stretches != old.stretches or is_whole != self._shard.is_whole:
            cuts = _cuts(parameters, stretches, layout.owned)
            transfers = ShardExchange(self._group, planned, domains, cuts, old)
            self._fill(made, old, transfers)
            self._shard.replace(made, is_whole)
            self._is_trimmed = False
        self._layout, self._owned = layout, layout.owned[rank]
        self._connect()

    def _fill(self, made: StatePieces, old: StatePieces, transfers: ShardExchange) -> None:
        """Fill new pieces from old ones, and from those of others. Raises GroupBroken: that is not all done.

        Then what was here before stays, and what has come. The next group decides again from what all have.
        """
        try:
            transfers.carry_out(made)
        except GroupBroken:
            self._broken_off = transfers
            if transfers.is_complete:
                both = StatePieces(self._shard.places, union(old.intervals, made.intervals))
                both.make_room(old.forms() | made.forms(), old)
                both.take(made)
                self._shard.replace(both, is_whole=False)
            raise

    def _pieces_of(self, layout: Layout, is_whole: bool) -> StatePieces:
        """This worker's, cut alike at owners and mirrors: rounding may depend on it."""
        parameters, held = self._shard.places, layout.held(self._group.rank)
        cut_by = [held] if is_whole else layout.owned
        return StatePieces(parameters, [part for owner in cut_by for part in common(owner, held)])

    def _connect(self) -> None:
        """Blocks get what is not here from the others."""
        shard = self._shard
        if not shard.blocks:
            return
        before, exchange = shard.exchange, None
        if self.is_divided:
            exchange = BlockExchange(
                self._group,
                self._layout,
                shard.pieces,
                shard.block_units,
                shard.blocks,
                self._meet_again,
                self._is_amid,
                before.num_gathered if before is not None and self._is_amid else 0,
            )
        shard.connect(exchange)

    def end_training(self) -> None:
        """This worker is past its last step and evaluation. Raises GroupBroken: a peer is gone."""
        if self._shard.exchange is not None:
            self._shard.exchange.end_training()

    def gather_model(self) -> None:
        """Training is over: the leader gets the parameters of all blocks. All do this together.

        Raises GroupBroken: a peer is gone.
        """
        exchange = self._shard.exchange
        if exchange is None or self._shard.is_whole:
            return
        for block in self._shard.blocks:
            full = exchange.gather_or_fail(block)
            if self._group.rank == 0:
                block.bring(block.split(full))
        self._group.gather(0)
        exchange.has_ended = True

    # ---------------------------------------------------------------- checkpoints
    @contextmanager
    def gathered(self, folder: Path) -> Iterator[None]:
        """Within, rank 0's optimizer has the whole state, to be saved. All do this together.

        Args:
            folder: on a disk with room for it: it may be more than fits into memory.

        Raises:
            GroupBroken: a peer is gone.
        """
        ranks = range(self._group.num_workers)
        if self._shard.is_whole:
            yield
            return
        held = [self._layout.held(rank) for rank in ranks]
        everything = self._shard.places.everything
        planned = plan_transfers(held, Layout((everything, *[()] * (len(held) - 1)), tuple(held)))
        is_writer = self._group.rank == 0
        whole = StatePieces(self._shard.places, everything if is_writer else ())
        pieces, cuts = self._shard.pieces, _cuts(self._shard.places, self._layout.owned)
        transfers = ShardExchange(self._group, planned, self._domains, cuts, pieces)
        transfers.carry_out(whole, partial(scratch_room, folder))
        with self._shard.filled(whole) if is_writer else nullcontext():
            yield


def _cuts(places: ParameterLayout, *layouts: Sequence[Sequence[Interval]]) -> list[int]:
    """Places at which parameters or pieces begin or end, sorted."""
    ends = (place for layout in layouts for part in layout for ends in part for place in ends)
    return sorted({*places.begins, *ends})


def _apart(owned: Sequence[Intervals]) -> list[Intervals]:
    """Each element with one owner: the first, if a change that broke has left several."""
    apart: list[Intervals] = []
    for own in owned:
        apart.append(without(own, union(*apart)))
    return apart


def _givers(owned: Sequence[Intervals], held: Sequence[Intervals]) -> list[Intervals]:
    """Who gives which parameters: their owners, and for those that are gone the first mirror."""
    missing = without(union(*held), union(*owned))
    givers = []
    for own, has in zip(owned, held, strict=True):
        instead = common(missing, has)
        givers.append(union(own, instead))
        missing = without(missing, instead)
    return givers
