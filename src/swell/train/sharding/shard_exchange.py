"""Transfers of a state from the pieces that workers have to those that they are to have.

Between workers of one place a piece is copied from memory to memory, and its source does nothing. Otherwise
it goes by messages.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import torch
import torch.distributed as dist

from swell.train.collective.group import Group
from swell.train.collective.peer_memory import NOWHERE, PeerMemory, has_read, lend
from swell.train.collective.pieces import Pieces
from swell.train.sharding.layout import FailureDomains, Interval, Transfer, size
from swell.train.sharding.state_pieces import Empty, Forms, StatePieces, split

#: Elements that travel at once between two workers.
WINDOW_ELEMENTS = 16 * 2**20


class _ShardOffer(msgspec.Struct):
    """What a worker tells the others before they begin."""

    forms: Forms
    lent: dict[int, PeerMemory]  #: parts of its pieces, by transfer


class ShardExchange:
    """One worker's part in the transfers that all workers of a group carry out together."""

    def __init__(
        self,
        group: Group,
        planned: Sequence[Transfer],
        domains: Sequence[FailureDomains],
        cuts: Sequence[int],
        old: StatePieces,
    ) -> None:
        """
        Args:
            planned: the same at all workers.
            domains: by rank.
            cuts: where parameters, and old or new pieces of any worker, begin or end, sorted.
            old: what this worker has.
        """
        self._group, self._cuts, self._old = group, cuts, old
        self._near, self._far = list[Transfer](), list[Transfer]()
        for each in planned:
            machine = domains[each.source].machine
            is_near = machine == domains[each.target].machine != NOWHERE and group.device.type == "cpu"
            (self._near if is_near else self._far).append(each)
        #: Whether this worker has all that it lacked, though perhaps not all others have.
        self.is_complete = False

    def carry_out(self, new: StatePieces, empty: Empty | None = None) -> None:
        """Fill pieces.

        Args:
            new: what this worker is to have, without content.
            empty: see `StatePieces.make_room`.

        Raises:
            GroupBroken: a peer is gone; see `is_complete`.
        """
        if not self._near and not self._far:
            new.make_room(self._old.forms(), self._old, empty)
            return
        offers = self._meet()
        forms: Forms = {}
        for offer in offers:
            forms |= offer.forms
        new.make_room(forms, self._old, empty)
        is_blind = not self._read(offers, new)
        self.is_complete = not self._far and not is_blind
        are_blind = self._group.gather(int(is_blind))  # until then no source changes what it lends
        left = [*self._far, *(each for each in self._near if are_blind[each.target])]
        if left:
            self._send(left, new)
            self.is_complete = True
            self._group.gather(0)

    def _meet(self) -> list[_ShardOffer]:
        """What each worker offers, by rank. This one's stays where it is for as long as this object lives."""
        lent = {
            number: lend(self._tensors(each, self._old))
            for number, each in enumerate(self._near)
            if each.source == self._group.rank
        }
        told = self._group.gather_bytes(msgspec.msgpack.encode(_ShardOffer(self._old.forms(), lent)))
        return [msgspec.msgpack.decode(each, type=_ShardOffer) for each in told]

    def _units(self, transfer: Transfer) -> Iterator[Interval]:
        """Its elements, cut such that each unit lies in one piece on both sides."""
        return split(transfer.interval, self._cuts)

    # ---------------------------------------------------------------- from memory to memory
    def _tensors(self, transfer: Transfer, side: StatePieces) -> list[torch.Tensor]:
        return [tensor for unit in self._units(transfer) for tensor in side.slices(unit)]

    def _read(self, offers: Sequence[_ShardOffer], new: StatePieces) -> bool:
        """Whether this worker has been able to."""
        return all(
            has_read(offers[each.source].lent[number], self._tensors(each, new))
            for number, each in enumerate(self._near)
            if each.target == self._group.rank
        )

    # ---------------------------------------------------------------- by messages
    def _send(self, planned: Sequence[Transfer], new: StatePieces) -> None:
        """Send what cannot be read, as many elements at once as a window has."""
        windows = defaultdict[int, defaultdict[tuple[int, int], list[Interval]]](lambda: defaultdict(list))
        num_sent = Counter[tuple[int, int]]()
        for each in planned:
            pair = each.source, each.target
            for whole in self._units(each):
                for unit in split(whole, range(*whole, WINDOW_ELEMENTS)):
                    windows[num_sent[pair] // WINDOW_ELEMENTS][pair].append(unit)
                    num_sent[pair] += size([unit])
        for turn in sorted(windows):
            self._send_window(windows[turn], new)

    def _send_window(self, units: Mapping[tuple[int, int], list[Interval]], new: StatePieces) -> None:
        rank, device = self._group.rank, self._group.device
        coming, operations = [], []
        for (source, target), intervals in units.items():
            if rank not in (source, target):
                continue
            side = self._old if rank == source else new
            cargo = Pieces([tensor for interval in intervals for tensor in side.slices(interval)], device)
            act, peer = (dist.isend, target) if rank == source else (dist.irecv, source)
            operations += [dist.P2POp(act, piece, peer) for piece in cargo.pieces if piece.numel()]
            if rank == target:
                coming.append(cargo)

        def move() -> None:
            for work in dist.batch_isend_irecv(operations) if operations else []:
                work.wait()

        self._group.run(move)
        for cargo in coming:
            cargo.unload()
