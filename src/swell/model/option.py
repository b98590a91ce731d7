"""What options of commands mean, written as tables of texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Option(NamedTuple):
    """What a table says of a field or a parameter."""

    flags: tuple[str, ...]  #: its names on a command line
    metavar: str | None  #: what stands for the value in help
    help: str
    more: str  #: what a reference says besides
    words: frozenset[str]
    parse: Callable[[Any], Any] | None  #: makes the value of what was said. Raises ValueError.

    @property
    def description(self) -> str:
        return f"{self.help} {self.more}".rstrip()


def told_options(texts: str, **parsers: Callable[[Any], Any]) -> dict[str, Option]:
    """Read what fields or parameters mean, by their names.

    A name is followed by a colon and what stands for its value. In parentheses before the colon are flags, if
    there are others than the name, and words: `rare` (help lists it only when all options are asked for),
    `count` (it is 0 or more), `argument`, or `none` (no command has it). Lines below are what help says, and
    those that are indented farther what a reference says besides.
    """
    return dict(_read(texts, parsers))


def _read(texts: str, parsers: dict[str, Callable[[Any], Any]]) -> Iterator[tuple[str, Option]]:
    for part in re.split(r"\n(?=\S)", texts.strip()):
        header, *lines = part.split("\n")
        names, _, metavar = header.partition(":")
        name, *words = re.split(r"[ (,)]+", names.rstrip(")"))
        flags = tuple(word for word in words if word.startswith("-"))
        indented = [line for line in lines if line.startswith(" " * 8)]
        yield (
            name,
            Option(
                flags or (f"--{name.replace('_', '-')}",),
                metavar.strip() or None,
                " ".join(line.strip() for line in lines if line not in indented),
                " ".join(line.strip() for line in indented),
                frozenset(words),
                parsers.get(name),
            ),
        )
