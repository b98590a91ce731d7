"""What a reader makes of one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

#: (number from 1, text) of lines that are not blank.
Lines = Sequence[tuple[int, str]]
#: Names of idle nodes, with the devices of each.
IdleNodes = Mapping[str, int]


class MalformedSnapshot(ValueError):
    """A line breaks a rule of its format; the text names the rule and the remedy."""

    def __init__(self, line: int, rule: str) -> None:
        super().__init__(rule)
        self.line = line


class TextReader(NamedTuple):
    """A format of text."""

    name: str  #: the command that prints it
    is_like: Callable[[Lines], bool]
    read: Callable[[Lines], IdleNodes]


class JsonReader(NamedTuple):
    """A format of JSON."""

    name: str  #: the command that prints it
    is_like: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Mapping[str, Any]], IdleNodes]
    moment_s: Callable[[Mapping[str, Any]], float | None]  #: when it was taken, if it says so
