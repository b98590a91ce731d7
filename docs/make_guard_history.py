"""Draws docs/images/guard.png: the history of the guard's figures, from benchmarks/guard.csv.

Run it from the repository's root: `python -m docs.make_guard_history`.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from benchmarks.guard.figures import FIGURES, Figure
from benchmarks.guard.history import Line, read_lines
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

PICTURE = Path(__file__).parent / "images" / "guard.png"
NUM_COLUMNS = 4
COLOUR = "#4c78a8"


def draw(axes: Axes, lines: list[Line], figure: Figure) -> None:
    """One figure of the commits that could be measured."""
    points = [(place, float(line[figure.name])) for place, line in enumerate(lines) if line[figure.name]]
    axes.step(*zip(*points, strict=True), where="post", color=COLOUR, marker=".")
    unit = "times the anchor" if figure.kind == "pair" else figure.unit
    axes.set_title(f"{figure.text.strip()}{', ' if unit else ''}{unit}", fontsize=8)
    axes.set_ylim(0, 1.1 * max(value for _, value in points) or 1)
    axes.set_xlim(-0.5, len(lines) - 0.5)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Draw one small picture for each figure that any commit has."""
    lines = read_lines()
    shown = [figure for figure in FIGURES if any(line[figure.name] for line in lines)]
    num_rows = -(-len(shown) // NUM_COLUMNS)
    picture, grid = plt.subplots(
        num_rows, NUM_COLUMNS, figsize=(16, 2.4 * num_rows), sharex=True, squeeze=False
    )
    for axes in grid.flat[len(shown) :]:
        axes.remove()
    for axes, figure in zip(grid.flat, shown, strict=False):
        draw(axes, lines, figure)
    for column in range(NUM_COLUMNS):
        below = grid[(len(shown) - 1 - column) // NUM_COLUMNS][column]
        below.set_xticks(range(len(lines)), [line["commit"] for line in lines], rotation=90, fontsize=6)
        below.tick_params(axis="x", labelbottom=True)
    picture.tight_layout()
    picture.savefig(PICTURE, dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    main()
