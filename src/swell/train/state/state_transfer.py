"""Let peers copy the training state from this worker's memory, and copy from theirs.

Each member of a group comes with a `Card` that tells how far its state has got, and where it lies.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence

import msgspec
import numpy as np
import torch

from swell.train.collective.group import Group
from swell.train.state.broadcast import share_state
from swell.train.state.peer_memory import MemorySpan, read
from swell.train.state.state_bundle import Header, make_room, pack
from swell.train.state.train_state import TrainState

TOKEN_BYTES = 16
#: In place of a number of updates: what this worker has is not the job's.
NO_STATE = -1


class Card(msgspec.Struct, frozen=True):
    """What a member of a group tells the others."""

    updates: int  #: finished, or NO_STATE
    pid: int = 0
    token: bytes = b""  #: lies at the beginning of `catalog`: who finds it there reads the right process
    catalog: MemorySpan | None = None  #: a `_Catalog` in this worker's memory; None: it lends nothing


class _Catalog(msgspec.Struct):
    header: Header
    spans: list[MemorySpan]  #: where the tensors lie


class Loan:
    """What a worker brings to a group: it lies where `card` says for as long as this object lives."""

    def __init__(self, updates: int, state: TrainState | None) -> None:
        """`state` is None where nobody needs it. Raises `codec.EncodeError`."""
        self.card = Card(updates)
        if state is not None and next(state.model.parameters()).device.type == "cpu":
            self._lay_out(state)

    def _lay_out(self, state: TrainState) -> None:
        header, tensors = pack(state)
        self._tensors = [tensor.contiguous() for tensor in tensors]
        catalog = _Catalog(header, [_span_of(tensor) for tensor in self._tensors])
        token = secrets.token_bytes(TOKEN_BYTES)
        self._content = np.frombuffer(token + msgspec.json.encode(catalog), dtype=np.uint8)
        span = MemorySpan(self._content.ctypes.data, self._content.nbytes)
        self.card = Card(self.card.updates, os.getpid(), token, span)


def hand_state(group: Group, state: TrainState, cards: Sequence[Card], holders: Sequence[int]) -> None:
    """Give all members of a group the state of the ranks `holders`, which have the same.

    From memory to memory where all who lack it may read it there, otherwise by messages.

    Raises:
        GroupBroken: a peer is gone.
    """
    takers = [rank for rank in range(group.num_workers) if rank not in holders]
    if not takers:
        return
    taken = None
    if group.rank in takers:
        holder = holders[takers.index(group.rank) % len(holders)]
        taken = _take(cards[holder], state, group.device)
    has_failed = group.rank in takers and taken is None
    if sum(group.gather(int(has_failed))):  # until then no holder trains on
        share_state(group, state, holders)
    elif taken is not None:
        state.load(*taken)


def _take(card: Card, state: TrainState, device: torch.device) -> tuple[str, list[torch.Tensor]] | None:
    """Skeleton and tensors from the memory of the worker with this card; None if that cannot be."""
    if card.catalog is None:
        return None
    content = np.empty(card.catalog.num_bytes, dtype=np.uint8)
    try:
        read(card.pid, [card.catalog], [MemorySpan(content.ctypes.data, content.nbytes)])
        found = content.tobytes()
        if found[:TOKEN_BYTES] != card.token:
            return None
        catalog = msgspec.json.decode(found[TOKEN_BYTES:], type=_Catalog)
        tensors = make_room(catalog.header, state, device)
        read(card.pid, catalog.spans, [_span_of(tensor) for tensor in tensors])
    except OSError:
        return None
    return catalog.header.skeleton, tensors


def _span_of(tensor: torch.Tensor) -> MemorySpan:
    return MemorySpan(tensor.data_ptr(), tensor.nbytes)
