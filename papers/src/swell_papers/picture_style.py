"""How lines and bars of pictures differ, and how names stand in them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.font_manager import fontManager

#: Ten colours that differ for colour-blind people, too: Petroff, arXiv:2107.02270.
COLOURS = (
    "#3f90da",
    "#ffa90e",
    "#bd1f01",
    "#94a4a2",
    "#832db6",
    "#a96b59",
    "#e76300",
    "#b9ac70",
    "#717581",
    "#92dadd",
)
#: Lines that lie on each other are all seen: each further one is thinner, broken in a way of its own, and has
#: a mark of its own.
DASHES: tuple[Any, ...] = (
    "-",
    *((0, dashes) for dashes in ((5, 2), (1.5, 1.5), (6, 1.5, 1.5, 1.5), (3, 3), (9, 2), (1, 3))),
)
MARKS = "os^DvPX"
WIDEST, NARROWEST, NARROWER = 2.6, 1.2, 0.35
#: Fonts with letters that matplotlib's own lacks, where they are installed.
MORE_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Micro Hei", "Droid Sans Fallback")


def colour(number: int) -> str:
    """Return the colour of a line or a bar."""
    return COLOURS[number % len(COLOURS)]


def dashes(number: int) -> Any:
    """Return the dash pattern of a line, as matplotlib's `linestyle`."""
    return DASHES[number % len(DASHES)]


def width(number: int) -> float:
    """Return the width of a line, in points."""
    return max(NARROWEST, WIDEST - NARROWER * number)


def mark(number: int) -> str:
    """Return the marker for the points of a line."""
    return MARKS[number % len(MARKS)]


@contextmanager
def plain_text() -> Iterator[None]:
    """Context in which all pictures are drawn.

    Names are no formulas. A letter that no font has is a box, without a warning.
    """
    known = {font.name for font in fontManager.ttflist}
    families = [*mpl.rcParams["font.family"], *(name for name in MORE_FONTS if name in known)]
    with warnings.catch_warnings(), mpl.rc_context({"text.parse_math": False, "font.family": families}):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
