"""What a terminal would obey is spelled out: jobs and hosts may print what they like."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO, cast

#: All control characters but a line's end and a tab.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: A return begins a line again: bars of progress do so, and what a job says could write over what we say.
_CONTROL_IN_LOGS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
#: Bold and its end: headings of our own tables are.
_BOLD = re.compile(r"(\x1b\[[01]m)")


def printable(text: str, control: re.Pattern[str] = _CONTROL) -> str:
    r"""ESC is `\x1b`: what follows it would move the cursor, set a title or write the clipboard."""
    return control.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def printable_log(line: str) -> str:
    """The same of a line of a log."""
    return printable(line, _CONTROL_IN_LOGS)


class PrintableOutput:
    """A stream whose texts are made printable, bold headings apart."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text, made printable; returns the length of `text`."""
        if _CONTROL.search(text):
            parts = _BOLD.split(text)  # every second one is bold or its end
            parts[::2] = map(printable, parts[::2])
            self.stream.write("".join(parts))
        else:
            self.stream.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


@contextmanager
def printable_output() -> Iterator[None]:
    """Make all output of a command printable, on both streams; `raw` lifts that."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_made_printable, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _made_printable(stream: TextIO) -> TextIO:
    """A stream that is closed is None."""
    return cast(TextIO, stream and PrintableOutput(stream))


def raw(stream: TextIO) -> TextIO:
    """The terminal obeys what is written here."""
    return stream.stream if isinstance(stream, PrintableOutput) else stream
