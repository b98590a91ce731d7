"""What a field of a struct says of itself as an option of a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Meta


def option(
    metavar: str,
    help_text: str,
    *,
    flag: str = "",
    parse: Callable[[Any], Any] | None = None,
    is_rare: bool = False,
) -> Meta:
    """Return the metadata of a field that a command has an option for.

    Args:
        metavar: what stands for the value in help; empty: it has none.
        flag: the option's name; empty: that of the field.
        parse: makes the field's value of what was said. Raises ValueError.
        is_rare: help lists it only when all options are asked for.
    """
    extra = {"metavar": metavar, "flag": flag, "parse": parse, "is_rare": is_rare}
    return Meta(description=help_text, extra=extra)
