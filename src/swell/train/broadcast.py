"""Hand the training state round a group, in few large messages and without pickle."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import torch
import torch.distributed as dist

from swell.train.group import Group
from swell.train.state import TrainState

#: Tensors travel together up to so many bytes; a larger one travels alone.
BUCKET_BYTES = 64 * 2**20


class _Form(msgspec.Struct):
    """What a receiver must know of a tensor to make room for it."""

    dtype: str  #: as in `torch.float32`
    shape: tuple[int, ...]
    is_on_host: bool  #: an optimizer keeps its step count in host memory, wherever the model is


class _Header(msgspec.Struct):
    skeleton: str
    forms: list[_Form]


def share_state(group: Group, state: TrainState, source: int) -> None:
    """Give all workers the state of rank `source`; theirs is untouched until all has arrived.

    Raises:
        GroupBroken: a peer is gone.
        codec.EncodeError: on `source`, the state holds something that cannot be sent.
    """
    if group.num_workers == 1:
        return
    if group.rank == source:
        skeleton, tensors = state.encode()
        _send(group, skeleton, tensors, source)
    else:
        skeleton, tensors = _receive(group, source)
        state.load(skeleton, tensors)


def _send(group: Group, skeleton: str, tensors: list[torch.Tensor], source: int) -> None:
    forms = [
        _Form(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tensor.device.type == "cpu")
        for tensor in tensors
    ]
    header = bytearray(msgspec.json.encode(_Header(skeleton, forms)))
    _broadcast(group, torch.tensor([len(header)], device=group.device), source)
    _broadcast(group, torch.frombuffer(header, dtype=torch.uint8).to(group.device), source)
    for bucket in _buckets(tensors):
        _broadcast(group, torch.cat([_as_bytes(tensor).to(group.device) for tensor in bucket]), source)


def _receive(group: Group, source: int) -> tuple[str, list[torch.Tensor]]:
    length = torch.zeros(1, dtype=torch.int64, device=group.device)
    _broadcast(group, length, source)
    content = torch.empty(int(length), dtype=torch.uint8, device=group.device)
    _broadcast(group, content, source)
    header = msgspec.json.decode(content.cpu().numpy().tobytes(), type=_Header)
    tensors = [
        torch.empty(
            form.shape, dtype=getattr(torch, form.dtype), device="cpu" if form.is_on_host else group.device
        )
        for form in header.forms
    ]
    for bucket in _buckets(tensors):
        sizes = [tensor.numel() * tensor.element_size() for tensor in bucket]
        flat = torch.empty(sum(sizes), dtype=torch.uint8, device=group.device)
        _broadcast(group, flat, source)
        for tensor, part in zip(bucket, flat.split(sizes), strict=True):
            _as_bytes(tensor).copy_(part)
    return header.skeleton, tensors


def _broadcast(group: Group, tensor: torch.Tensor, source: int) -> None:
    group.run(lambda: dist.broadcast(tensor, source))


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _buckets(tensors: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    bucket: list[torch.Tensor] = []
    num_bytes = 0
    for tensor in tensors:
        size_bytes = tensor.numel() * tensor.element_size()
        if bucket and num_bytes + size_bytes > BUCKET_BYTES:
            yield bucket
            bucket, num_bytes = [], 0
        bucket.append(tensor)
        num_bytes += size_bytes
    if num_bytes:
        yield bucket
