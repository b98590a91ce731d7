"""A checksum is that of the bits: equal for equal ones, another for a single bit."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from swell.train.state.drift import Replica, checksum, is_summable
from swell.train.state.optimizer_set import OptimizerSet
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


@given(st.permutations(range(3)))
def test_a_layout_does_not_count(order: list[int]) -> None:
    plain = torch.arange(60.0).reshape(3, 4, 5)
    back = [order.index(axis) for axis in range(3)]
    strided = plain.permute(order).contiguous().permute(back)
    assert torch.equal(plain, strided)
    assert checksum(plain) == checksum(strided)
    assert checksum(plain[1:2].expand(3, 4, 5)) == checksum(plain[1:2].repeat(3, 1, 1))


def test_what_has_no_bits_of_its_own_has_no_checksum() -> None:
    assert not any(map(is_summable, [1.0, "x", torch.eye(2).to_sparse(), torch.ones(1, device="meta")]))
    assert is_summable(nn.Parameter(torch.ones(1)))


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


@pytest.mark.parametrize(
    ("num_tensors", "num_features", "interval"), [(3, 4, 16), (5, 4, 32), (1, 40_000, 48), (1, 10**6, 512)]
)
def test_more_is_compared_less_often(num_tensors: int, num_features: int, interval: int) -> None:
    own, _ = replica(num_tensors, num_features)
    assert own.interval == interval


def test_what_each_of_several_optimizers_keeps_counts_and_stays_as_it_is() -> None:
    """Also where both train one parameter."""
    model = nn.ModuleList([nn.Linear(2, 1), nn.Linear(2, 1)])
    first = torch.optim.Adam(model.parameters(), lr=0.1)
    second = torch.optim.Adam(model[1].parameters(), lr=0.1)
    state = TrainState(model, OptimizerSet({"first": first, "second": second}), None, {})
    sum(layer(torch.ones(1, 2)).sum() for layer in model).backward()
    first.step()
    second.step()
    own = Replica(state)
    before = own.checksums()
    assert {"first.exp_avg of 1.bias", "second.exp_avg of 1.bias"} <= before.keys()
    second.state[model.get_parameter("1.bias")]["exp_avg"].add_(1.0)
    assert dict(own.checksums().items() - before.items()).keys() == {"second.exp_avg of 1.bias"}
    saved = state.optimizer.state_dict()  # a state that was only looked at has no entries of other models
    assert [len(saved[name]["state"]) for name in ("first", "second")] == [4, 2]


PLAIN = st.one_of(st.floats(), st.integers(-9, 9), st.booleans(), st.none(), st.sampled_from(["a", "b"]))


@given(PLAIN, PLAIN)
def test_hyperparameters_count_by_their_value(one: object, two: object) -> None:
    (own, first), (other, second) = replica(), replica()
    first.optimizer.param_groups[0]["lr"], second.optimizer.param_groups[0]["lr"] = one, two
    is_same = repr(one) == repr(two)
    assert (own.hyperparameter_checksum() == other.hyperparameter_checksum()) == is_same
    other.take_hyperparameters(own.hyperparameters())
    assert own.hyperparameter_checksum() == other.hyperparameter_checksum()
    assert isinstance(second.optimizer.param_groups[0]["betas"], tuple)
