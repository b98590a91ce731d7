"""A program whose processes all have a calendar that the test sets."""

from __future__ import annotations

import os
from pathlib import Path

SITE = Path(__file__).parent / "wall_site"
#: On PYTHONPATH: that, and the program of this tree.
SITE_AND_SOURCES = os.pathsep.join((str(SITE), str(Path(__file__).parents[2] / "src")))


class WallClock:
    """How far the calendar of a program's processes is ahead of the machine's; see `Program`."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ahead"
        self.environ = {"PYTHONPATH": SITE_AND_SOURCES, "WALL_AHEAD": str(self._file)}

    def set(self, ahead_s: float) -> None:
        """A step, at once and for all of them."""
        draft = self._file.with_suffix(".draft")
        draft.write_text(str(ahead_s))
        draft.replace(self._file)
