"""What the journal keeps of a batch's commands, so that a replay can be compared with them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from swell.model.command import AnyCommand


def digest(commands: Sequence[AnyCommand]) -> str:
    """Equal for equal commands, also where a later version knows fields that have their defaults here."""
    content = msgspec.json.encode(_without_defaults(commands), order="sorted")
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
