"""Laws of the state tree on its way."""

from __future__ import annotations

import io
import math
from collections import Counter, OrderedDict, deque
from datetime import date, datetime, time, timedelta, timezone
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from swell.train.state.codec import EncodeError, decode, encode

dtypes = st.sampled_from(
    [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
)
tensors = st.builds(
    lambda shape, dtype: torch.arange(math.prod(shape)).reshape(shape).to(dtype),
    st.lists(st.integers(0, 3), max_size=3),
    dtypes,
)
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
arrays = tensors.filter(lambda tensor: tensor.dtype != torch.bfloat16).map(torch.Tensor.numpy)
values = plain | tensors | arrays
keys = st.text() | st.integers() | st.floats(allow_nan=False) | st.tuples(st.text(), st.integers())
trees = st.recursive(
    values,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.lists(inner).map(lambda items: deque(items, 9))
        | st.sets(keys)
        | st.dictionaries(keys, inner)
        | st.dictionaries(keys, inner).map(OrderedDict)
        | st.dictionaries(keys, st.integers(0, 5)).map(Counter)
    ),
    max_leaves=20,
)


def same(ours: Any, theirs: Any) -> bool:
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, torch.Tensor):
        return ours.dtype == theirs.dtype and ours.shape == theirs.shape and torch.equal(ours, theirs)
    if isinstance(ours, np.ndarray):
        return ours.dtype == theirs.dtype and ours.shape == theirs.shape and bool((ours == theirs).all())
    if isinstance(ours, deque) and ours.maxlen != theirs.maxlen:
        return False
    if isinstance(ours, dict):
        return list(ours) == list(theirs) and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list | tuple | deque):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs) or ours != ours


@given(trees)
def test_what_is_encoded_comes_back(tree: Any) -> None:
    skeleton, parts = encode(tree)
    assert same(decode(skeleton, parts), tree)
    file = io.BytesIO()
    torch.save(decode(skeleton, parts, for_file=True), file)
    file.seek(0)
    assert same(decode(*encode(torch.load(file, weights_only=True))), tree)


def test_an_array_of_another_machines_byte_order_keeps_its_values() -> None:
    array = np.arange(3, dtype=">i4")
    assert decode(*encode(array)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("tree", "named"),
    [
        (
            {"objects": {"sampler": {"order": range(2)}}},
            r"state\['objects'\]\['sampler'\]\['order'\] is a builtins.range",
        ),
        ({"f": [len]}, r"state\['f'\]\[0\]"),
        ({"f": deque([len])}, r"an item of state\['f'\] is a builtins"),
        ({"f": np.zeros(2, np.longdouble)}, r"state\['f'\] is a numpy.ndarray"),
        ({("a", len): 2}, r"key \('a', .*\) of state\[1\] is a builtins"),
        ({torch.eye(1): 2}, r"state has a tensor as a key"),
        ({"x": torch.eye(2).to_sparse()}, r"state\['x'\] is a torch.sparse_coo tensor"),
    ],
)
def test_what_cannot_be_encoded_is_named(tree: Any, named: str) -> None:
    with pytest.raises(EncodeError, match=named):
        encode(tree)


class Phase(IntEnum):
    MAIN = 1


class Loss(Enum):
    SQUARE = torch.nn.MSELoss  # cannot be saved by its value


@pytest.mark.parametrize(
    "value",
    [
        *(Phase.MAIN, Loss.SQUARE, Path("a/b"), frozenset({1, "x"}), timedelta(2), date(2026, 1, 2)),
        *(time(3), datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=1)))),
    ],
)
def test_what_its_type_makes_again_is_the_same_also_as_a_key(value: Any) -> None:
    [(key, back)] = decode(*encode({value: value})).items()
    assert key == back == value and type(key) is type(back) is type(value)


def test_a_state_that_is_read_calls_nothing_but_types_of_plain_values() -> None:
    skeleton, tensors = encode(("swell.made", "os:getcwd"))
    with pytest.raises(TypeError, match="may not call os:getcwd"):
        decode(skeleton, tensors)
