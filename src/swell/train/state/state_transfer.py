"""Hand the training state from workers that have it to those that lack it, without pickle.

Each member of a group comes with a `MemberCard` that tells how far its state has got, and where it lies. On a
host where one has the state the others copy it from that one's memory. The rest get it by messages, along one
line of workers, of which each passes on what comes in while more is coming, so that it goes to each host over
the network once. NCCL would need a connection for each pair of neighbours: there one worker broadcasts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence

import msgspec
import torch
import torch.distributed as dist

from swell.train.collective.group import Group, await_all
from swell.train.collective.peer_memory import (
    NOWHERE,
    LentMemory,
    MemoryLoan,
    MemorySpan,
    own_place,
    read,
    read_lent,
    span_of,
)
from swell.train.collective.pieces import Pieces, piece_sizes
from swell.train.collective.process_groups import backend_of
from swell.train.sharding.layout import ShardCard
from swell.train.state.train_state import TrainState
from swell.wire import environ

#: In place of a number of updates: what this worker has is not the job's.
NO_STATE = -1


class MemberCard(msgspec.Struct, frozen=True):
    """What a member of a group tells the others."""

    updates: int  #: finished, or NO_STATE
    catalog: LentMemory | None = None  #: a `Header` in this worker's memory; None: it lends nothing
    place: str = NOWHERE  #: workers of one place can read each other's memory
    rack: str = ""  #: in which its machine stands; empty: not known
    shard: ShardCard | None = None  #: where the optimizer's state is divided among the workers


class TensorForm(msgspec.Struct, frozen=True, array_like=True):
    """What a receiver must know of a tensor to make room for it."""

    dtype: str  #: as in `torch.float32`
    shape: tuple[int, ...]
    is_on_host: bool  #: an optimizer keeps its step count in host memory, wherever the model is

    @property
    def num_bytes(self) -> int:
        dtype: torch.dtype = getattr(torch, self.dtype)
        return math.prod(self.shape) * dtype.itemsize


class Header(msgspec.Struct):
    """What a receiver must know of a whole state before its tensors come."""

    skeleton: str
    forms: list[TensorForm]
    spans: list[MemorySpan] = []  #: where the tensors lie, if the receiver can read them there


class StateLoan:
    """What a worker brings to a group: it lies where `card` says for as long as this object lives."""

    def __init__(self, updates: int, state: TrainState | None) -> None:
        """`state` is None where no other needs it. Raises `codec.EncodeError`."""
        self.card = MemberCard(updates, place=own_place(), rack=os.environ.get(environ.RACK, ""))
        if state is not None and next(state.model.parameters()).device.type == "cpu":
            header, tensors = pack(state)
            self._tensors = [tensor.contiguous() for tensor in tensors]
            header.spans = [span_of(tensor) for tensor in self._tensors]
            self._loan = MemoryLoan(msgspec.json.encode(header))
            self.card = msgspec.structs.replace(self.card, catalog=self._loan.lent)


def hand_state(
    group: Group,
    state: TrainState,
    cards: Sequence[MemberCard],
    holders: Sequence[int],
    others: Sequence[int] = (),
) -> None:
    """Give all members of a group, but `others`, the state of the ranks `holders`, which have the same.

    A worker that has a valid state of its own keeps it until all of the new one has come.

    Raises:
        GroupBroken: a peer is gone.
        codec.EncodeError: in a holder, the state has something that cannot be sent.
    """
    lacking = [rank for rank in range(group.num_workers) if rank not in (*holders, *others)]
    routes = _routes(lacking, cards, holders)
    blind = _copy(group, state, cards, routes) if routes else set()
    left = [rank for rank in lacking if rank not in routes or rank in blind]
    if left:
        send_state(group, state, [holders[0], *sorted(left, key=lambda rank: cards[rank].place)])


def share_state(group: Group, state: TrainState) -> None:
    """Give all workers the state that rank 0 has. Raises as `hand_state` does."""
    if group.num_workers > 1:
        send_state(group, state, range(group.num_workers))


# ---------------------------------------------------------------- from memory to memory
def _routes(lacking: Sequence[int], cards: Sequence[MemberCard], holders: Sequence[int]) -> dict[int, int]:
    """Who reads whose memory, by rank: each that has a lender at its place, the lenders in turn."""
    routes = {}
    for number, rank in enumerate(lacking):
        place = cards[rank].place
        near = [each for each in holders if cards[each].catalog and cards[each].place == place != NOWHERE]
        if near:
            routes[rank] = near[number % len(near)]
    return routes


def _copy(
    group: Group, state: TrainState, cards: Sequence[MemberCard], routes: Mapping[int, int]
) -> set[int]:
    """Copy from the second rank of each route to the first; return those that cannot read it."""
    source = routes.get(group.rank)
    taken = None if source is None else _take(cards[source], state, group.device)
    has_failed = group.gather(int(source is not None and taken is None))  # until then no lender trains on
    if taken is not None:
        state.load(*taken)
    return {rank for rank, is_failed in enumerate(has_failed) if is_failed}


def _take(card: MemberCard, state: TrainState, device: torch.device) -> tuple[str, list[torch.Tensor]] | None:
    """Skeleton and tensors from the memory of the worker with this card; None if that cannot be."""
    assert card.catalog is not None  # noqa: S101 - it lends
    try:
        header = msgspec.json.decode(read_lent(card.catalog), type=Header)
        tensors = make_room(header, state, device)
        read(card.catalog.pid, header.spans, [span_of(tensor) for tensor in tensors])
    except OSError:
        return None
    return header.skeleton, tensors


# ---------------------------------------------------------------- by messages
def send_state(group: Group, state: TrainState, line: Sequence[int]) -> None:
    """Give the state that the first rank of a line has to the others there. All members call this.

    Raises:
        GroupBroken: a peer is gone.
        codec.EncodeError: in the first one, the state has something that cannot be sent.
    """
    header, tensors = pack(state) if group.rank == line[0] else (None, [])
    told = group.gather_bytes(b"" if header is None else msgspec.json.encode(header))
    header = msgspec.json.decode(told[line[0]], type=Header)
    if group.rank == line[0]:
        _hand(group, line, Pieces(tensors, group.device).pieces)
    elif group.rank in line:
        tensors = make_room(header, state, group.device)
        cargo = Pieces(tensors, group.device)
        _hand(group, line, cargo.pieces)
        cargo.unload()
        state.load(header.skeleton, tensors)
    elif backend_of(group.device) == "nccl":  # what others need is received, one piece over the other
        sizes = piece_sizes([form.num_bytes for form in header.forms], group.device)
        room = torch.empty(max(sizes), dtype=torch.uint8, device=group.device)
        _hand(group, line, [room[:size] for size in sizes])


def _hand(group: Group, line: Sequence[int], pieces: Sequence[torch.Tensor]) -> None:
    """Send flat tensors on the group's device, or fill them with what is received, and pass it on."""
    broadcast_all = backend_of(group.device) == "nccl"

    def hand() -> None:
        if broadcast_all:
            for piece in pieces:
                dist.broadcast(piece, line[0])
            return
        here = line.index(group.rank)
        coming = [dist.irecv(piece, line[here - 1]) for piece in pieces] if here else [None for _ in pieces]
        going = []
        for piece, work in zip(pieces, coming, strict=True):
            if work is not None:
                work.wait()
            if group.rank != line[-1]:
                going.append(dist.isend(piece, line[here + 1]))
        await_all(going)

    group.run(hand)


# ---------------------------------------------------------------- a state as it travels
def pack(state: TrainState) -> tuple[Header, list[torch.Tensor]]:
    """Header and tensors (not copied) of what all workers have the same of. Raises `codec.EncodeError`."""
    skeleton, tensors = state.encode(is_shared=True)
    return Header(skeleton, [_form_of(tensor) for tensor in tensors]), tensors


def make_room(header: Header, state: TrainState, device: torch.device) -> list[torch.Tensor]:
    """A contiguous tensor for each that will come: the model's own, if nothing is lost by half a state.

    `state.load(header.skeleton, tensors)` takes them over once they are filled.
    """
    rooms = {} if state.is_valid else state.rooms(header.skeleton)
    tensors = []
    for slot, form in enumerate(header.forms):
        room = rooms.get(slot)
        is_lazy = room is not None and (room.is_conj() or room.is_neg())
        if room is None or is_lazy or not room.is_contiguous() or _form_of(room) != form:
            place = "cpu" if form.is_on_host else device
            room = torch.empty(form.shape, dtype=getattr(torch, form.dtype), device=place)
        tensors.append(room)
    return tensors


def _form_of(tensor: torch.Tensor) -> TensorForm:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorForm(dtype, tuple(tensor.shape), tensor.device.type == "cpu")
