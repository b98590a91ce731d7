"""Options whose values need no validation take them as they are.

Typer validates each value with an adapter of Pydantic, also a value that was not given and one that is a text
anyway. To import Pydantic and to make the adapters takes longer than most commands do.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import suppress
from enum import EnumType
from pathlib import Path
from typing import Any, ClassVar

import typer.core


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
        if kind == list[str]:
            return list(value)
        if kind in (str, bool) and type(value) is kind:
            return value
        if kind is Path and (os.access(value, os.R_OK) or not os.path.exists(value)):
            return Path(value)
        if isinstance(kind, EnumType):
            with suppress(ValueError):
                return kind(value)
        if kind in (int, float):
            least = -math.inf if rules.min is None else rules.min
            most = math.inf if rules.max is None else rules.max
            with suppress(ValueError):
                if least <= (number := kind(value)) <= most:
                    return number
        return _PlainValue.build(self._descriptor).coerce(value, param=param, ctx=ctx)
