"""Options whose values need no validation take them as they are.

Typer validates each value with an adapter of Pydantic, also a value that was not given and one that is a text
anyway. To import Pydantic and to make the adapters takes longer than most commands do.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from enum import EnumType
from pathlib import Path
from typing import Any, ClassVar

import typer.core

_NUMBER = {int: re.compile(r"\d{1,15}", re.ASCII), float: re.compile(r"\d{1,15}(\.\d{1,15})?", re.ASCII)}
#: What a value is that Typer is to convert.
_UNKNOWN = object()


def use_plain_values() -> None:
    """Have Typer convert only the values that need it, in this process.

    A version of Typer that converts in another way stays as it is.
    """
    place: Any = typer.core
    build = getattr(place, "build_runtime_param", None)
    if build is not None and build is not _PlainValue:
        _PlainValue.build = build
        place.build_runtime_param = _PlainValue


class _PlainValue:
    """The conversion of the values of one parameter; Typer's own is made when a value needs it."""

    build: ClassVar[Callable[[Any], Any]]  #: Typer's own

    def __init__(self, descriptor: Any) -> None:
        self._descriptor = descriptor

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value as the command gets it. Raises Typer's own errors."""
        is_list = param.multiple or param.nargs == -1
        if value is None or (is_list and not value):
            return () if is_list else None
        kind, rules = self._descriptor.annotation, self._descriptor.parameter_info
        found = _UNKNOWN if rules.parser is not None else _plain(value, kind, rules)
        if found is not _UNKNOWN:
            return found
        return _PlainValue.build(self._descriptor).coerce(value, param=param, ctx=ctx)


def _plain(value: Any, kind: Any, rules: Any) -> Any:
    if kind == list[str] and all(type(one) is str for one in value):
        return list(value)
    if kind is str and type(value) is str:
        return value
    if kind is Path:
        return _path(value, rules)
    if isinstance(kind, EnumType):
        members: list[Any] = list(kind)
        return next((one for one in members if value in (one, one.value)), _UNKNOWN)
    return _number(value, kind, rules) if kind in _NUMBER else _UNKNOWN


def _path(value: Any, rules: Any) -> Any:
    is_checked = rules.exists or rules.writable or rules.resolve_path or rules.allow_dash or rules.path_type
    if is_checked or not (rules.file_okay and rules.dir_okay):
        return _UNKNOWN
    if os.path.exists(value) and not os.access(value, os.R_OK):
        return _UNKNOWN  # Typer says what is wrong with it
    return Path(value)


def _number(value: Any, kind: Any, rules: Any) -> Any:
    if isinstance(value, str):
        if not _NUMBER[kind].fullmatch(value):
            return _UNKNOWN
        value = kind(value)
    elif type(value) is not kind:
        return _UNKNOWN
    least = -math.inf if rules.min is None else rules.min
    most = math.inf if rules.max is None else rules.max
    return value if least <= value <= most else _UNKNOWN
