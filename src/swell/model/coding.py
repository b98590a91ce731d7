"""JSON that keeps numbers which are none: the loss of a training run that diverged is NaN.

JSON has no word for NaN and the infinities; encoders write null, which a reader does not take for a number.
Here they are the strings "nan", "inf" and "-inf", and come back as the floats they were.
"""

from __future__ import annotations

import math
import re
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

#: The first bytes of a float in MessagePack that is NaN or infinite. Texts may hold them by chance.
_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")


def encode(value: object) -> bytes:
    """JSON of anything msgspec can write.

    What may hold a number that is none is found in MessagePack, which has words for them: only those parts
    take the slow way through Python.
    """
    if not _NOT_FINITE.search(msgspec.msgpack.encode(value)):
        return msgspec.json.encode(value)
    if isinstance(value, list):
        return b"[" + b",".join(map(encode, value)) + b"]"
    if isinstance(value, msgspec.Struct) and _is_plain(type(value)):
        return encode_by_fields(value)
    return msgspec.json.encode(_spelled(msgspec.to_builtins(value, builtin_types=(msgspec.Raw,))))


def encode_by_fields(value: msgspec.Struct) -> bytes:
    """`encode` of a plain struct that probably holds such a number: each field is looked at by itself."""
    fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
    parts = {name: msgspec.Raw(encode(part)) for name, part in fields if part is not msgspec.UNSET}
    return msgspec.json.encode(parts)


def _is_plain(kind: type[msgspec.Struct]) -> bool:
    """Whether it is written as its fields by their names, and nothing else."""
    config, are_named = kind.__struct_config__, kind.__struct_fields__ == kind.__struct_encode_fields__
    return config.tag is None and not config.omit_defaults and not config.array_like and are_named


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
