"""Which known word an unknown one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean epochs?`; empty if no known word is similar."""
    found = get_close_matches(word, [*known], cutoff=0.7)
    return f"did you mean {' or '.join(found)}?" if found else ""
