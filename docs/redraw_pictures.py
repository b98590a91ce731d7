"""Draws the pictures of docs/results again, from what `swell repro PAPER --docs docs` has kept of them.

Run it from the repository's root once the drawing has changed: `python docs/redraw_pictures.py [PAPER ...]`.
It runs no evaluation. Pictures that no `charts.json` beside them has need a new run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from swell_papers.findings_store import CHARTS, read_charts
from swell_papers.pictures import draw

IMAGES = Path(__file__).absolute().parent / "images"


def main(papers: Sequence[str]) -> None:
    """All papers for none."""
    for file in sorted(IMAGES.glob(f"*/{CHARTS}")):
        if not papers or file.parent.name in papers:
            for chart in read_charts(file):
                print(draw(chart, file.parent).relative_to(IMAGES))


if __name__ == "__main__":
    main(sys.argv[1:])
