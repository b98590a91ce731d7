"""Laws of the state tree on its way."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from typing import Any

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
values = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | tensors
keys = st.text() | st.integers()
trees = st.recursive(
    values,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
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
    if isinstance(ours, dict):
        return list(ours) == list(theirs) and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list | tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs) or ours != ours


@given(trees)
def test_what_is_encoded_comes_back(tree: Any) -> None:
    skeleton, parts = encode(tree)
    assert same(decode(skeleton, parts), tree)


@pytest.mark.parametrize(
    ("tree", "named"),
    [
        (
            {"objects": {"sampler": {"order": {1, 2}}}},
            r"state\['objects'\]\['sampler'\]\['order'\] is a builtins.set",
        ),
        ({"f": [len]}, r"state\['f'\]\[0\]"),
        ({("a", 1): 2}, r"key \('a', 1\)"),
        ({"x": torch.eye(2).to_sparse()}, r"state\['x'\] is a torch.sparse_coo tensor"),
    ],
)
def test_what_cannot_be_encoded_is_named(tree: Any, named: str) -> None:
    with pytest.raises(EncodeError, match=named):
        encode(tree)
