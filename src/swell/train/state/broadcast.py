"""Hand the training state from those that have it to those that lack it, by messages and without pickle.

A *line* is one that has it and some that lack it, who pass on what comes in while more is coming. NCCL has
its own ways, and would need a connection for each pair of neighbours: there one worker broadcasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import torch
import torch.distributed as dist

from swell.train.collective.group import Group
from swell.train.collective.pieces import Pieces, piece_sizes
from swell.train.collective.process_groups import backend_of
from swell.train.state.state_bundle import Header, make_room, pack
from swell.train.state.train_state import TrainState


def share_state(group: Group, state: TrainState, holder: int = 0) -> None:
    """Give all workers the state that the rank `holder` has. Raises as `send_state` does."""
    others = [rank for rank in range(group.num_workers) if rank != holder]
    if others:
        send_state(group, state, [[holder, *others]])


def send_state(group: Group, state: TrainState, lines: Sequence[Sequence[int]]) -> None:
    """Give each line the state that its first rank has, which is the same in all lines.

    All members of the group call this. A worker that has a valid state of its own keeps it until all of the
    new one has come.

    Raises:
        GroupBroken: a peer is gone.
        codec.EncodeError: in a holder, the state has something that cannot be sent.
    """
    way = _way(group, lines)
    takes = group.rank in [rank for line in lines for rank in line[1:]]
    if not way.leads_here:
        return
    if not takes and way.source in (None, group.rank):
        header, tensors = pack(state)
        _hand_header(group, way, header)
        group.run(lambda: way.hand(Pieces(tensors, group.device).pieces))
        return
    header = _hand_header(group, way, Header())
    if not takes:
        _drop(group, way, header)
        return
    tensors = make_room(header, state, group.device)
    cargo = Pieces(tensors, group.device)
    group.run(lambda: way.hand(cargo.pieces))
    cargo.unload()
    state.load(header.skeleton, tensors)


def _drop(group: Group, way: _Way, header: Header) -> None:
    """Receive what others need, one piece over the other."""
    sizes = piece_sizes([form.num_bytes for form in header.forms], group.device)
    room = torch.empty(max(sizes), dtype=torch.uint8, device=group.device)
    group.run(lambda: way.hand([room[:size] for size in sizes]))


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

    @property
    def source(self) -> int | None:
        """The rank that sends to all others; None: each holder sends to its line."""

    @property
    def leads_here(self) -> bool:
        """Whether this worker has a part in it."""

    def hand(self, pieces: Sequence[torch.Tensor]) -> None:
        """Send the tensors if this worker is a holder or the source, else fill them with what is received.

        Each is flat and on the group's device.
        """


@dataclass(frozen=True, slots=True)
class _Line:
    """A place in a line of workers."""

    before: int | None  #: rank of the one that this worker gets it from; None: it is a holder
    after: int | None  #: rank of the one that it gives it to; None: it is the last

    @property
    def source(self) -> None:
        return None

    @property
    def leads_here(self) -> bool:
        return self.before is not None or self.after is not None

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
    """Broadcast from one holder to all workers, whatever these have. Those that need none drop it."""

    source: int
    leads_here: bool = True

    def hand(self, pieces: Sequence[torch.Tensor]) -> None:
        for piece in pieces:
            dist.broadcast(piece, self.source)


def _way(group: Group, lines: Sequence[Sequence[int]]) -> _Way:
    if backend_of(group.device) == "nccl":
        return _Broadcast(lines[0][0])
    for line in lines:
        if group.rank in line:
            here = line.index(group.rank)
            return _Line(line[here - 1] if here else None, line[here + 1] if here + 1 < len(line) else None)
    return _Line(None, None)
