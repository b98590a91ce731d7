"""`guard.csv`: a line for each measured commit; of a figure of kind `pair` it has the ratio to the anchor."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from benchmarks.guard.figures import FIGURES
from benchmarks.guard.verdicts import Row

FILE = Path(__file__).parents[1] / "guard.csv"
COLUMNS = ("commit", "committed_at", "subject", "digest", *(figure.name for figure in FIGURES))
Line = dict[str, str]


def line_of(commit: str, committed_at: str, subject: str, digest: str, rows: Iterable[Row]) -> Line:
    line = {"commit": commit, "committed_at": committed_at, "subject": subject, "digest": digest}
    for row in rows:
        kept = row.to_anchor if row.figure.kind == "pair" else row.value
        line[row.figure.name] = "" if kept is None else f"{kept:.6g}" if kept % 1 else f"{kept:.0f}"
    return line


def read_lines(file: Path = FILE) -> list[Line]:
    if not file.exists():
        return []
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def append(line: Line, file: Path = FILE) -> None:
    """In place of an earlier line of that commit. A column that is new, or gone, is so in all lines."""
    lines = [*(other for other in read_lines(file) if other["commit"] != line["commit"]), line]
    with file.open("w", newline="") as text:
        writer = csv.DictWriter(text, COLUMNS, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
