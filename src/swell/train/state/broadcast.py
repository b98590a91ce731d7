"""Hand the training state from those that have it to those that lack it, by messages and without pickle.

Each that has it heads a *line*. Those that lack it are shared out among the lines, and pass on what comes in
while more is coming. NCCL has its own ways, and would need a connection for each pair of neighbours: there
one worker broadcasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import torch
import torch.distributed as dist

from swell.train.collective.group import Group, backend_of
from swell.train.state.state_bundle import Header, Pieces, make_room, pack
from swell.train.state.train_state import TrainState


def share_state(group: Group, state: TrainState, holders: Sequence[int]) -> None:
    """Give all workers the state that the ranks `holders` have, the same on all of them.

    A worker that has a valid state of its own keeps it until all of the new one has come.

    Raises:
        GroupBroken: a peer is gone.
        codec.EncodeError: in a holder, the state has something that cannot be sent.
    """
    takers = [rank for rank in range(group.num_workers) if rank not in holders]
    if not takers:
        return
    way = _way(group, holders, takers)
    if group.rank in holders:
        header, tensors = pack(state)
        _hand_header(group, way, header)
        group.run(lambda: way.hand(Pieces(tensors, group.device).pieces))
        return
    header = _hand_header(group, way, Header())
    tensors = make_room(header, state, group.device)
    cargo = Pieces(tensors, group.device)
    group.run(lambda: way.hand(cargo.pieces))
    cargo.unload()
    state.load(header.skeleton, tensors)


def _hand_header(group: Group, way: _Way, own: Header) -> Header:
    content = torch.frombuffer(bytearray(msgspec.json.encode(own)), dtype=torch.uint8).to(group.device)
    length = torch.tensor([len(content)], device=group.device)
    group.run(lambda: way.hand([length]))
    if int(length) != len(content):
        content = torch.empty(int(length), dtype=torch.uint8, device=group.device)
    group.run(lambda: way.hand([content]))
    return msgspec.json.decode(content.cpu().numpy().tobytes(), type=Header)


class _Way(Protocol):
    """How tensors get from the holders to the others: the same list on all, in length and sizes."""

    def hand(self, pieces: Sequence[torch.Tensor]) -> None:
        """Of a holder they are sent, and of another filled. Each is flat and on the group's device."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A place in a line of workers."""

    before: int | None  #: rank of the one that this worker gets it from; None: it is a holder
    after: int | None  #: rank of the one that it gives it to; None: it is the last

    def hand(self, pieces: Sequence[torch.Tensor]) -> None:
        coming = [None if self.before is None else dist.irecv(piece, self.before) for piece in pieces]
        going = []
        for piece, work in zip(pieces, coming, strict=True):
            if work is not None:
                work.wait()
            if self.after is not None:
                going.append(dist.isend(piece, self.after))
        for work in going:
            if work is not None:
                work.wait()


@dataclass(frozen=True, slots=True)
class _Broadcast:
    """To all. Other holders are sent what they have."""

    source: int

    def hand(self, pieces: Sequence[torch.Tensor]) -> None:
        for piece in pieces:
            dist.broadcast(piece, self.source)


def _way(group: Group, holders: Sequence[int], takers: Sequence[int]) -> _Way:
    if backend_of(group.device) == "nccl":
        return _Broadcast(holders[0])
    lines = [[holder, *takers[number :: len(holders)]] for number, holder in enumerate(holders)]
    [line] = [line for line in lines if group.rank in line]
    here = line.index(group.rank)
    return _Line(line[here - 1] if here else None, line[here + 1] if here + 1 < len(line) else None)
