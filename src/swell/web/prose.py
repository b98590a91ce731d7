"""Markdown as our own pages use it, in pieces that a template shows: paragraphs, lists, tables, and words.

Only what those pages need: `code`, *emphasis*, **strong words** and links, of which the words stay, for a
report refers to nothing outside itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

WORDS = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]+)\]\([^)]*\)")
KINDS: tuple[Literal["code", "strong", "em", "text"], ...] = ("code", "strong", "em", "text")


class Phrase(NamedTuple):
    """A piece of a line, in one style."""

    style: Literal["code", "strong", "em", "text"]
    text: str


class Block(NamedTuple):
    """`lines` are one line of a paragraph or heading, the items of a list, or the cells of a table's rows."""

    kind: Literal["heading", "paragraph", "list", "table"]
    lines: list[list[Phrase]] | list[list[list[Phrase]]]


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a Markdown text in order.

    Empty lines separate blocks. Lines of a block that are no items are joined.
    """
    for part in re.split(r"\n\s*\n", text.strip()):
        lines = part.strip().splitlines()
        if not lines:
            continue
        if lines[0].startswith("#"):
            yield Block("heading", [words(lines[0].lstrip("# "))])
        elif lines[0].startswith("|"):
            rows = [line.strip().strip("|").split("|") for line in lines if not line.startswith("|---")]
            yield Block("table", [[words(cell.strip()) for cell in row] for row in rows])
        elif lines[0].startswith("* "):
            yield Block("list", [words(item) for item in _items(lines)])
        else:
            yield Block("paragraph", [words(" ".join(map(str.strip, lines)))])


def _items(lines: list[str]) -> list[str]:
    """A line that is indented goes on with the item above."""
    items: list[str] = []
    for line in lines:
        if line.startswith("* "):
            items.append(line[2:])
        else:
            items[-1] += " " + line.strip()
    return items


def words(line: str) -> list[Phrase]:
    """Pieces of a line; without their signs they are its text."""
    found: list[Phrase] = []
    at = 0
    for match in WORDS.finditer(line):
        if match.start() > at:
            found.append(Phrase("text", line[at : match.start()]))
        group = match.lastindex or 1
        found.append(Phrase(KINDS[group - 1], match[group]))
        at = match.end()
    return [*found, Phrase("text", line[at:])] if at < len(line) else found
