"""Hand the training state from workers that have it to those that lack it, without pickle.

Each member of a group comes with a `MemberCard` that tells how far its state has got, and where it is. On a
host where one has the state the others copy it from that one's memory. The rest get it by messages, along one
line of workers, of which each passes on what comes in while more is coming, so that it goes to each host over
the network once. NCCL would need a connection for each pair of neighbours: there one worker broadcasts.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
import torch
import torch.distributed as dist

from swell.train.collective.group import Group, await_all
from swell.train.collective.pieces import Pieces, piece_sizes
from swell.train.collective.process_groups import backend_of, own_address
from swell.train.data.unequal_shares import NOTHING_TOLD, SpeedNote
from swell.train.state.train_state import TrainState

#: In place of a number of updates: what this worker has is not the job's.
NO_STATE = -1
#: The place of a worker that reads no other's memory.
NOWHERE = ""
_BOOT_ID, _PROCESSES = Path("/proc/sys/kernel/random/boot_id"), "/proc/self/ns/pid"
_SET_PTRACER = 0x59616D61  #: PR_SET_PTRACER of Linux's prctl(2)
#: Threads share the calls: the first use of new memory costs more processor time than the copy.
MAX_CALL_BYTES = 16 * 2**20
MAX_THREADS = 4
_libc = ctypes.CDLL(None)


class MemberCard(msgspec.Struct, frozen=True):
    """What a member of a group tells the others."""

    updates: int  #: finished, or NO_STATE
    place: str = NOWHERE  #: workers of one place can read each other's memory
    speed: SpeedNote = NOTHING_TOLD  #: as it has measured it until now


class TensorForm(msgspec.Struct, frozen=True, array_like=True):
    """What a receiver must know of a tensor to make room for it."""

    dtype: str  #: as in `torch.float32`
    shape: tuple[int, ...]
    is_on_host: bool  #: an optimizer keeps its step count in host memory, wherever the model is


class StateOffer(msgspec.Struct):
    """What one that has the state tells the others before its tensors come.

    The tensors stay as they are until all have read them.
    """

    skeleton: str
    forms: list[TensorForm]
    pid: int
    spans: list[tuple[int, int]]  #: where the tensors lie in that process: address and bytes of each


def hand_state(group: Group, state: TrainState, cards: Sequence[MemberCard], holders: Sequence[int]) -> None:
    """Give all members of a group the state of the ranks `holders`, which have the same.

    A worker that has a valid state of its own keeps it until all of the new one has come.

    Raises:
        GroupBroken: a peer is gone.
        codec.EncodeError: in a holder, the state has something that cannot be sent.
    """
    lacking = [rank for rank in range(group.num_workers) if rank not in holders]
    if not lacking:
        return
    own, tensors = make_offer(state) if group.rank in holders else (b"", [])
    told = group.gather_bytes(own)
    offers = {rank: msgspec.json.decode(told[rank], type=StateOffer) for rank in holders}
    offer = offers[holders[0]]
    if group.rank in lacking:
        tensors = _make_room(offer, state, group.device)
    routes = _routes(lacking, cards, holders) if group.device.type == "cpu" else {}
    left = lacking
    if routes:
        source = routes.get(group.rank)
        is_blind = source is not None and not read_memory(offers[source], tensors)
        are_blind = group.gather(int(is_blind))  # until then no lender trains on
        left = [rank for rank in lacking if rank not in routes or are_blind[rank]]
    if group.rank in lacking and group.rank not in left:
        state.load(offer.skeleton, tensors)
    if left:
        line = [holders[0], *sorted(left, key=lambda rank: cards[rank].place)]
        _send(group, line, tensors, offer)
    if group.rank in left:
        state.load(offer.skeleton, tensors)


def make_offer(state: TrainState) -> tuple[bytes, list[torch.Tensor]]:
    """A `StateOffer`, encoded, and its tensors, which stay there. Raises `codec.EncodeError`."""
    skeleton, tensors = state.encode()
    tensors = [tensor.contiguous() for tensor in tensors]
    spans = [(tensor.data_ptr(), tensor.nbytes) for tensor in tensors]
    offer = StateOffer(skeleton, [_form_of(tensor) for tensor in tensors], os.getpid(), spans)
    return msgspec.json.encode(offer), tensors


def share_state(group: Group, state: TrainState) -> None:
    """Give all workers the state that rank 0 has. Raises as `hand_state` does."""
    hand_state(group, state, [MemberCard(NO_STATE)] * group.num_workers, holders=[0])


def _routes(lacking: Sequence[int], cards: Sequence[MemberCard], holders: Sequence[int]) -> dict[int, int]:
    """Who reads whose memory, by rank: each that has a holder at its place, the holders in turn."""
    routes = {}
    for number, rank in enumerate(lacking):
        near = [each for each in holders if cards[each].place == cards[rank].place != NOWHERE]
        if near:
            routes[rank] = near[number % len(near)]
    return routes


def _send(group: Group, line: Sequence[int], tensors: Sequence[torch.Tensor], offer: StateOffer) -> None:
    """Send the tensors of the first rank of a line to the others there. All members call this.

    Raises GroupBroken: a peer is gone.
    """
    if group.rank in line:
        cargo = Pieces(tensors, group.device)
        group.run(lambda: _pass_on(group, line, cargo.pieces))
        if group.rank != line[0]:
            cargo.unload()
    elif backend_of(group.device) == "nccl":  # what others need is received, one piece over the other
        sizes = piece_sizes([num_bytes for _, num_bytes in offer.spans], group.device)
        room = torch.empty(max(sizes), dtype=torch.uint8, device=group.device)
        group.run(lambda: _pass_on(group, line, [room[:size] for size in sizes]))


def _pass_on(group: Group, line: Sequence[int], pieces: Sequence[torch.Tensor]) -> None:
    """Send flat tensors on the group's device, or fill them with what is received, and pass it on."""
    if backend_of(group.device) == "nccl":
        options = dist.BroadcastOptions()
        options.rootRank = line[0]
        await_all([group.process_group.broadcast([piece], options) for piece in pieces])
        return
    here = line.index(group.rank)
    coming = (
        [group.process_group.recv([piece], line[here - 1], 0) for piece in pieces]
        if here
        else [None for _ in pieces]
    )
    going = []
    for piece, work in zip(pieces, coming, strict=True):
        if work is not None:
            work.wait()
        if group.rank != line[-1]:
            going.append(group.process_group.send([piece], line[here + 1], 0))
    await_all(going)


# ---------------------------------------------------------------- the memory of a peer on this machine
# A socket costs each byte two copies, and the other side's time; this costs one copy, and the other side does
# nothing.
def own_place() -> str:
    """Where workers are that can read each other: a kernel, a namespace of process ids, a host's address."""
    try:
        return f"{_BOOT_ID.read_text().strip()} {os.readlink(_PROCESSES)} {own_address()}"
    except OSError:
        return NOWHERE


def allow_siblings() -> None:
    """Let the children of this process's parent read this one, where Yama lets only parents do so."""
    if sys.platform == "linux":
        _libc.prctl(_SET_PTRACER, ctypes.c_ulong(os.getppid()))  # fails where there is no Yama


def read_memory(offer: StateOffer, targets: Sequence[torch.Tensor]) -> bool:
    """Copy what a process offers to contiguous tensors of the same sizes.

    False: the kernel does not let us, or cannot; the process is gone, or has something else. Part may have
    been copied.
    """
    if sys.platform != "linux" or [size for _, size in offer.spans] != [each.nbytes for each in targets]:
        return False  # only Linux has process_vm_readv
    calls = [
        (address + done, target.data_ptr() + done, min(MAX_CALL_BYTES, num_bytes - done))
        for (address, num_bytes), target in zip(offer.spans, targets, strict=True)
        for done in range(0, num_bytes, MAX_CALL_BYTES)
    ]
    num_threads = max(1, min(len(calls), MAX_THREADS, len(os.sched_getaffinity(0))))
    with ThreadPoolExecutor(num_threads) as pool:
        return all(pool.map(partial(_read_once, offer.pid), calls))


class _Part(ctypes.Structure):
    """What process_vm_readv(2) takes."""

    _fields_ = [("address", ctypes.c_void_p), ("num_bytes", ctypes.c_size_t)]


def _read_once(pid: int, call: tuple[int, int, int]) -> bool:
    there, here, num_bytes = call
    parts = [ctypes.byref(_Part(address, num_bytes)) for address in (here, there)]
    one = ctypes.c_ulong(1)
    num_read: int = _libc.process_vm_readv(ctypes.c_int(pid), parts[0], one, parts[1], one, ctypes.c_ulong(0))
    return num_read == num_bytes  # less where a part of it is not to be read


# ---------------------------------------------------------------- a state as it travels
def _make_room(offer: StateOffer, state: TrainState, device: torch.device) -> list[torch.Tensor]:
    """A contiguous tensor for each that will come: the model's own, if nothing is lost by half a state.

    `state.load(offer.skeleton, tensors)` takes them over once they are filled.
    """
    rooms = {} if state.is_valid else state.rooms(offer.skeleton)
    tensors = []
    for slot, form in enumerate(offer.forms):
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
