"""JSON that keeps numbers which are none: the loss of a training run that diverged is NaN.

JSON has no word for NaN and the infinities; encoders write null, which is no number to whoever reads it.
Here they are the strings "nan", "inf" and "-inf", and come back as the floats they were.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def encode(value: object) -> bytes:
    """JSON of anything msgspec can write."""
    return msgspec.json.encode(_spelled(msgspec.to_builtins(value)))


def decoder(kind: type[T] | Any) -> msgspec.json.Decoder[T]:
    """A decoder for what `encode` wrote. It takes a number in quotes for a number, nothing else."""
    return msgspec.json.Decoder(kind, strict=False)


def _spelled(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _spelled(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(item) for item in value]
    return value
