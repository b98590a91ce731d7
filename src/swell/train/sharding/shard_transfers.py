"""Transfers of a state from the pieces that workers have to those that they are to have.

Between workers of one place a piece is copied from memory to memory, and its source does nothing. Otherwise
it goes by messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import torch.distributed as dist

from swell.train.collective.group import Group
from swell.train.collective.pieces import Pieces
from swell.train.sharding.intervals import Interval
from swell.train.sharding.layout import Transfer
from swell.train.sharding.state_pieces import ParameterPlaces, StatePieces, split
from swell.train.state.peer_memory import LentMemory, MemoryLoan, MemorySpan, read, read_lent
from swell.train.state.routes import NOWHERE
from swell.train.state.state_transfer import span_of

#: Elements that travel at once between two workers.
WINDOW_ELEMENTS = 16 * 2**20


class ShardTransfers:
    """One worker's part in the transfers that all workers of a group carry out together."""

    def __init__(
        self,
        group: Group,
        parameters: ParameterPlaces,
        cuts: Sequence[int],
        old: StatePieces,
        new: StatePieces,
    ) -> None:
        """`cuts`: places at which old or new pieces of any worker begin or end, sorted."""
        self._group, self._parameters, self._cuts = group, parameters, cuts
        self._old, self._new = old, new

    def carry_out(self, planned: Sequence[Transfer], places: Sequence[str]) -> None:
        """
        Args:
            places: by rank; workers of one place can read each other's memory, see `routes`.

        Raises:
            GroupBroken: a peer is gone, and what is new is not complete.
        """
        near = [each for each in planned if places[each.source] == places[each.target] != NOWHERE]
        is_in_memory = near and self._group.device.type == "cpu"
        blind = self._copy(near) if is_in_memory else {each.target for each in near}
        self._send([each for each in planned if each not in near or each.target in blind])

    def _units(self, transfer: Transfer) -> Iterator[Interval]:
        """Its elements, cut such that each unit lies in one piece on both sides."""
        for part in self._parameters.cut(transfer.interval):
            yield from split((part.begin, part.end), self._cuts)

    # ---------------------------------------------------------------- from memory to memory
    def _copy(self, near: Sequence[Transfer]) -> set[int]:
        """Returns the ranks that cannot read the memory of others."""
        rank = self._group.rank
        going = {
            number: self._spans(each, self._old) for number, each in enumerate(near) if each.source == rank
        }
        loan = MemoryLoan(msgspec.msgpack.encode(going))
        told = self._group.gather_bytes(msgspec.msgpack.encode(loan.lent))
        is_blind = not self._read(near, [msgspec.msgpack.decode(each, type=LentMemory) for each in told])
        are_blind = self._group.gather(int(is_blind))  # until then no source changes what it lends
        return {rank for rank, is_blind in enumerate(are_blind) if is_blind}

    def _spans(self, transfer: Transfer, side: StatePieces) -> list[MemorySpan]:
        return [span_of(tensor) for unit in self._units(transfer) for tensor in side.slices(unit)]

    def _read(self, near: Sequence[Transfer], lent: Sequence[LentMemory]) -> bool:
        coming = [(number, each) for number, each in enumerate(near) if each.target == self._group.rank]
        try:
            for source in {each.source for _, each in coming}:
                there = msgspec.msgpack.decode(read_lent(lent[source]), type=dict[int, list[MemorySpan]])
                for number, each in coming:
                    if each.source == source:
                        read(lent[source].pid, there[number], self._spans(each, self._new))
        except OSError:
            return False
        return True

    # ---------------------------------------------------------------- by messages
    def _send(self, planned: Sequence[Transfer]) -> None:
        """As many elements at once as a window has."""
        windows: dict[tuple[int, int], list[list[Interval]]] = {}
        for each in planned:
            filled = windows.setdefault((each.source, each.target), [[]])
            for whole in self._units(each):
                for unit in split(whole, range(*whole, WINDOW_ELEMENTS)):
                    if sum(end - begin for begin, end in filled[-1]) >= WINDOW_ELEMENTS:
                        filled.append([])
                    filled[-1].append(unit)
        for turn in range(max(map(len, windows.values()), default=0)):
            self._send_window({pair: units[turn] for pair, units in windows.items() if turn < len(units)})

    def _send_window(self, units: dict[tuple[int, int], list[Interval]]) -> None:
        rank, device = self._group.rank, self._group.device
        coming, operations = [], []
        for (source, target), intervals in units.items():
            if rank not in (source, target):
                continue
            side = self._old if rank == source else self._new
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
