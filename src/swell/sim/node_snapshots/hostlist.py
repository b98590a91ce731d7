"""Slurm's lists of nodes: `n[1-4,7],login1`, `rack[01-02]n[1-2]`. Numbers keep their leading zeros."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

#: No machine has more nodes.
MOST_NODES = 1_000_000
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expanded(text: str) -> tuple[str, ...]:
    """Names of the nodes, in order. Raises ValueError: it is no such list."""
    names: list[str] = []
    for one in _separated(text):
        names += _expanded_one(one, MOST_NODES - len(names))
    return tuple(names)


def _separated(text: str) -> Iterator[str]:
    """What stands between commas outside of brackets."""
    depth, begin = 0, 0
    for at, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if depth not in (0, 1):
            break
        if character == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
    if depth:
        raise ValueError(f"{text!r} has a bracket without its other one; write for example n[1-4,7]")
    yield text[begin:]


def _expanded_one(text: str, most: int) -> list[str]:
    parts, at = list[list[str]](), 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            break
        parts.append([match[2]] if match[1] is None else _numbers(match[1], most))
        at = match.end()
    if at < len(text) or not text:
        raise ValueError(f"{text!r} names no nodes; write for example n[1-4,7]")
    num = 1
    for part in parts:
        num *= len(part)
    if num > most:
        raise ValueError(f"{text!r} is more than {MOST_NODES} nodes; is a number misspelt?")
    return ["".join(pieces) for pieces in product(*parts)]


def _numbers(text: str, most: int) -> list[str]:
    found: list[str] = []
    for piece in text.split(","):
        match = _RANGE.fullmatch(piece)
        first, last = (match[1], match[2] or match[1]) if match else ("1", "0")
        if int(last) < int(first):
            raise ValueError(f"{piece!r} is no range of numbers; write for example 1-4")
        if int(last) - int(first) >= most:
            raise ValueError(f"{piece!r} is more than {MOST_NODES} nodes; is a number misspelt?")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found
