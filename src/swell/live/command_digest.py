"""What the journal keeps of a batch's commands, so that a replay can be compared with them."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from swell.model.command import AnyCommand

#: Of digests that are written now: with a checksum, so that a flipped bit is no other decision.
MARK = "3:"
#: Of earlier ones, without; the first have no mark: they change with each new field of a job.
UNCHECKED_MARK = "2:"
CHECKSUM_CHARS = 8
_UNCHECKED = re.compile(rf"({UNCHECKED_MARK})?[0-9a-f]{{16}}")


class DamagedDigest(ValueError):
    """It is not what was written: nothing can be said of the commands."""


def digest(commands: Sequence[AnyCommand]) -> str:
    """Equal for equal commands, also where a later version knows fields that have their defaults here."""
    return _checked(_hashed_without_defaults(commands))


def is_equal(noted: str, commands: Sequence[AnyCommand]) -> bool | None:
    """Whether these are the commands that the digest is of. None: it is of an earlier version, and cannot be
    compared: these commands may have fields that there were not.

    Raises:
        DamagedDigest: it is none.
    """
    if _UNCHECKED.fullmatch(noted):
        if noted.startswith(UNCHECKED_MARK):
            return noted == UNCHECKED_MARK + _hashed_without_defaults(commands)
        return True if noted == _hashed(msgspec.json.encode(commands)) else None
    if noted != _checked(noted[len(MARK) : -CHECKSUM_CHARS]):
        raise DamagedDigest
    return noted == digest(commands)


def _checked(hashed: str) -> str:
    return f"{MARK}{hashed}{zlib.crc32(hashed.encode(errors='replace')):08x}"


def _hashed_without_defaults(commands: Sequence[AnyCommand]) -> str:
    return _hashed(msgspec.json.encode(_without_defaults(commands), order="sorted"))


def _hashed(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _without_defaults(value: Any) -> Any:
    """Structs as their fields by name, as far as these are not what they would be anyway."""
    if isinstance(value, msgspec.Struct):
        kind, defaults = type(value), _defaults(type(value))
        named = {name: getattr(value, name) for name in value.__struct_fields__}
        told = {name: one for name, one in named.items() if name not in defaults or one != defaults[name]}
        return {"": kind.__name__} | {name: _without_defaults(one) for name, one in told.items()}
    if isinstance(value, list | tuple):
        return [_without_defaults(one) for one in value]
    if isinstance(value, dict):  # what sorts keys takes strings alone
        return {str(key) if isinstance(key, int) else key: one for key, one in value.items()}
    return value


@cache
def _defaults(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Default values by name of the field, for fields that have one."""
    fields = msgspec.structs.fields(kind)
    return {
        field.name: field.default_factory() if field.default is msgspec.NODEFAULT else field.default
        for field in fields
        if not field.required
    }
