"""A checksum is that of the bits: equal for equal ones, another for a single bit."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from swell.train.collective.pieces import checksum
from swell.train.state.drift import Replica
from swell.train.state.train_state import TrainState

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.float8_e4m3fn,
    torch.int16,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.int64,
    torch.complex64,
    torch.complex128,
]


def tensor_of(content: bytes, dtype: torch.dtype) -> torch.Tensor:
    """A flat tensor with these bits."""
    if dtype == torch.bool:
        content = bytes(byte & 1 for byte in content)
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).view(dtype)


def flipped(tensor: torch.Tensor, bit: int) -> torch.Tensor:
    content = bytearray(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    if tensor.dtype == torch.bool:
        content[bit // 8] ^= 1
    else:
        content[bit // 8] ^= 1 << bit % 8
    return tensor_of(bytes(content), tensor.dtype).reshape(tensor.shape)


@given(st.sampled_from(DTYPES), st.binary(min_size=16, max_size=800), st.data())
def test_a_single_bit_counts_in_every_type(dtype: torch.dtype, content: bytes, data: st.DataObject) -> None:
    tensor = tensor_of(content[: len(content) // 16 * 16], dtype)
    bit = data.draw(st.integers(0, 8 * tensor.nbytes - 1))
    other = flipped(tensor, bit)
    assert checksum(tensor) == checksum(tensor.clone())
    assert checksum(tensor) != checksum(other)


# ---------------------------------------------------------------- of a replica
def replica(num_tensors: int = 3, num_features: int = 4, seed: int = 0) -> tuple[Replica, TrainState]:
    torch.manual_seed(seed)
    model = nn.Sequential(*(nn.Linear(num_features, 1) for _ in range(num_tensors)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    sum(layer(torch.ones(1, num_features)).sum() for layer in model).backward()
    optimizer.step()
    state = TrainState(model, optimizer, None, {})
    return Replica(state), state


@settings(max_examples=25)
@given(st.integers(1, 30), st.data())
def test_every_number_counts(num_tensors: int, data: st.DataObject) -> None:
    """Of parameters, of what the optimizer keeps for them, and of its counts."""
    own, _ = replica(num_tensors)
    other, state = replica(num_tensors)
    assert own.checksum() == other.checksum()
    kept = state.optimizers[0].state.values()
    tensors = [*state.model.parameters(), *(value for entry in kept for value in entry.values())]
    tensor = data.draw(st.sampled_from(tensors))
    place = data.draw(st.integers(0, tensor.numel() - 1))
    tensor.data.view(-1)[place] += 1
    assert own.checksum() != other.checksum()
    assert len(own.checksums().items() - other.checksums().items()) == 1
