"""Let neighbours copy the training state from this worker's memory, and copy from theirs.

Each member of a group comes with a `MemberCard` that tells how far its state has got, and where it lies.
Between hosts the state goes by messages, to one worker of each host, from which its neighbours copy it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import msgspec
import torch

from swell.train.collective.group import Group
from swell.train.collective.peer_memory import LentMemory, MemoryLoan, MemorySpan, read, read_lent, span_of
from swell.train.collective.routes import NOWHERE, lines, memory_routes, own_place, receivers
from swell.train.sharding.shard_card import ShardCard
from swell.train.state.broadcast import send_state
from swell.train.state.state_bundle import Header, make_room, pack
from swell.train.state.train_state import TrainState
from swell.wire import environ

#: In place of a number of updates: what this worker has is not the job's.
NO_STATE = -1


class MemberCard(msgspec.Struct, frozen=True):
    """What a member of a group tells the others."""

    updates: int  #: finished, or NO_STATE
    catalog: LentMemory | None = None  #: a `_Catalog` in this worker's memory; None: it lends nothing
    place: str = NOWHERE  #: workers of one place can read each other's memory, see `routes`
    rack: str = ""  #: in which its machine stands; empty: not known
    shard: ShardCard | None = None  #: where the optimizer's state is divided among the workers


class _Catalog(msgspec.Struct):
    header: Header
    spans: list[MemorySpan]  #: where the tensors lie


class StateLoan:
    """What a worker brings to a group: it lies where `card` says for as long as this object lives."""

    def __init__(self, updates: int, state: TrainState | None) -> None:
        """`state` is None where no other needs it. Raises `codec.EncodeError`."""
        self.card = MemberCard(updates, place=own_place(), rack=os.environ.get(environ.RACK, ""))
        if state is not None and next(state.model.parameters()).device.type == "cpu":
            self._lay_out(state)

    def _lay_out(self, state: TrainState) -> None:
        header, tensors = pack(state)
        self._tensors = [tensor.contiguous() for tensor in tensors]
        catalog = _Catalog(header, [span_of(tensor) for tensor in self._tensors])
        self._loan = MemoryLoan(msgspec.json.encode(catalog))
        self.card = msgspec.structs.replace(self.card, catalog=self._loan.lent)


def hand_state(
    group: Group,
    state: TrainState,
    cards: Sequence[MemberCard],
    holders: Sequence[int],
    others: Sequence[int] = (),
) -> None:
    """Give all members of a group, but `others`, the state of the ranks `holders`, which have the same.

    From memory to memory on the hosts where one has it. To one worker of each other host it goes by messages,
    and from that one through memory to its neighbours. One that cannot read memory gets it by messages.

    Raises:
        GroupBroken: a peer is gone.
        codec.EncodeError: in a holder, the state has something that cannot be sent.
    """
    places = [card.place for card in cards]
    lenders = {rank: cards[rank] for rank in holders if cards[rank].catalog is not None}
    lacking = [rank for rank in range(group.num_workers) if rank not in (*holders, *others)]
    blind: set[int] = set()
    while lacking:
        routes = memory_routes(lacking, list(lenders), places, blind)
        blind |= _copy(group, state, lenders, routes) if routes else set()
        lacking = [rank for rank in lacking if rank in blind or rank not in routes]
        if not lacking:
            return
        chosen = receivers(holders, lacking, places, blind) if group.device.type == "cpu" else lacking
        send_state(group, state, lines(holders, chosen, places))
        lacking = [rank for rank in lacking if rank not in chosen]
        if lacking:  # what is lent stays where it is until they have it
            loan = StateLoan(state.updates, state) if group.rank in chosen else None
            lenders = _cards_of(chosen, loan, group)


def _copy(
    group: Group, state: TrainState, lenders: Mapping[int, MemberCard], routes: Mapping[int, int]
) -> set[int]:
    """Through memory, from the second rank of each route to the first; returns those that cannot read it."""
    source = routes.get(group.rank)
    taken = None if source is None else _take(lenders[source], state, group.device)
    has_failed = group.gather(int(source is not None and taken is None))  # until then no lender trains on
    if taken is not None:
        state.load(*taken)
    return {rank for rank, is_failed in enumerate(has_failed) if is_failed}


def _cards_of(lenders: Sequence[int], own: StateLoan | None, group: Group) -> dict[int, MemberCard]:
    """Gather the cards, by rank, of workers that lend a state which they have just received.

    Args:
        own: what this worker lends, if it is one of them.
    """
    told = group.gather_bytes(b"" if own is None else msgspec.json.encode(own.card))
    return {rank: msgspec.json.decode(told[rank], type=MemberCard) for rank in lenders}


def _take(card: MemberCard, state: TrainState, device: torch.device) -> tuple[str, list[torch.Tensor]] | None:
    """Skeleton and tensors from the memory of the worker with this card; None if that cannot be."""
    if card.catalog is None:
        return None
    try:
        catalog = msgspec.json.decode(read_lent(card.catalog), type=_Catalog)
        tensors = make_room(catalog.header, state, device)
        read(card.catalog.pid, catalog.spans, [span_of(tensor) for tensor in tensors])
    except OSError:
        return None
    return catalog.header.skeleton, tensors
