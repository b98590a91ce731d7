"""What a terminal would obey is spelled out: jobs and hosts may print what they like."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO, cast

#: All control characters but a line's end, a tab and the return with which a bar of progress begins anew.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
#: Bold, underlined, coloured: headings of our own tables are. Nothing else comes of it.
_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")


def printable(text: str) -> str:
    r"""ESC is `\x1b`: what follows it would move the cursor, set a title or write the clipboard."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


class PrintableOutput:
    """A stream whose texts are made printable, their styles apart."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """As `TextIO.write`; the number is that of `text`."""
        if _CONTROL.search(text):
            parts = _STYLE.split(text)  # every second one is a style
            parts[::2] = map(printable, parts[::2])
            self.stream.write("".join(parts))
        else:
            self.stream.write(text)
        return len(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


@contextmanager
def printable_output() -> Iterator[None]:
    """For what a command prints; `raw_output` is without it."""
    before = sys.stdout
    sys.stdout = cast(TextIO, PrintableOutput(before))
    try:
        yield
    finally:
        sys.stdout = before


def raw_output() -> TextIO:
    """The terminal obeys what is written here."""
    return sys.stdout.stream if isinstance(sys.stdout, PrintableOutput) else sys.stdout
