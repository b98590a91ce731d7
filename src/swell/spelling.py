"""Which known word an unknown one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean epochs?`; empty if no known word is similar."""
    from difflib import get_close_matches  # only a mistake has to wait for it

    found = get_close_matches(word, [*known], cutoff=0.7)
    return f"did you mean {' or '.join(found)}?" if found else ""
