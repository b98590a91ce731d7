"""Which known column an unknown one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

#: Of two names' letters so many are the same, in order, if one is a slip of the other.
LIKE_SHARE = 0.85
#: Words that name a unit or a kind of column, not what it is of.
PLAIN_WORDS = frozenset(
    ("s", "ms", "sec", "secs", "second", "seconds", "minute", "minutes", "h", "hour", "hours", "time")
) | {"num", "number", "n", "is", "of", "size"}


def meant_column(name: str, known: Iterable[str]) -> str | None:
    """The first that says the same in other units, as `deadline` for `deadline_s`; else the nearest."""
    names = tuple(known)
    same = (other for other in names if _words(other) == _words(name))
    return next(same, None) or next(iter(get_close_matches(name, names, n=1, cutoff=LIKE_SHARE)), None)


def _words(name: str) -> frozenset[str]:
    words = name.replace("-", "_").replace(" ", "_").split("_")
    told = frozenset(word.removesuffix("s") for word in words if word and word not in PLAIN_WORDS)
    return told or frozenset(words)
