"""Where findings are kept: a folder with a file for machines, tables, pictures, and a page of all of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from textwrap import fill
from typing import Any

import msgspec
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from PIL import Image

from swell.arrays import FloatArray
from swell.model.errors import InvalidInput
from swell_papers.experiment import Paper
from swell_papers.findings import Cell, Chart, Findings, Heading, Lines, Table, markdown, table, write_csv
from swell_papers.variants import VARIANTS

#: A page shows tables of so many cells, so many claims one by one, and so many lines of conditions. All are
#: in files beside it.
MAX_CELLS = 200
MAX_CLAIMS = 40
MAX_TRUTH = 8


def write(findings: Findings, folder: Path) -> list[Path]:
    """`NAME.json`, a CSV for each table, a PNG for each chart. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / f"{findings.name}.json"
    whole.write_bytes(msgspec.json.format(msgspec.json.encode(findings), indent=1) + b"\n")
    return [whole, *_write_raw(findings, folder), *(draw(chart, folder) for chart in findings.charts)]


def read(paper: Paper, folder: Path) -> list[Findings]:
    """What the folder has of the paper, in its order. Raises InvalidInput for a file of another version."""
    found = []
    for experiment in paper.experiments:
        file = folder / f"{experiment.name}.json"
        if file.exists():
            try:
                found.append(msgspec.json.decode(file.read_bytes(), type=Findings))
            except msgspec.MsgspecError as error:
                raise InvalidInput(f"{file} cannot be read ({error}); run {experiment.name} again") from error
    return found


def write_page(paper: Paper, all_findings: Sequence[Findings], docs: Path) -> list[Path]:
    """`results/PAPER.md` in a folder of documents, its pictures in `images`. Raises OSError."""
    page, images = docs / "results" / f"{paper.name}.md", docs / "images" / paper.name
    for folder in (page.with_suffix(""), images):
        folder.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(_page(paper, all_findings))
    page.write_text(f"{text}{_spellings(text)}\n", encoding="utf-8")
    pictures = [draw(chart, images) for findings in all_findings for chart in findings.charts[:1]]
    raw = [file for findings in all_findings for file in _write_raw(findings, page.with_suffix(""))]
    return [page, *pictures, *raw]


def _write_raw(findings: Findings, folder: Path) -> list[Path]:
    """Write tables as CSV. Raises OSError."""
    return [write_csv(table, findings.truth, folder) for table in findings.tables]


def _page(paper: Paper, all_findings: Sequence[Findings]) -> Iterator[str]:
    """One screen of what came out, then a line for each experiment."""
    yield f"# {paper.title}"
    yield f"<!-- Written by `swell repro {paper.name}`; change the program, not this page. -->"
    tables = [(findings, one) for findings in all_findings for one in findings.tables]
    claims = [(findings, one) for findings, one in tables if one.name.endswith("-claims")]
    told = table("claims", "", *_all_claims(claims))
    alone = all_findings if len(all_findings) == 1 else ()
    for one in (*(one for findings in alone for one in findings.tables), *(() if alone else (told,))):
        if one.rows and len(one.rows) * len(one.columns) <= MAX_CELLS:
            yield markdown(one)
    for chart in [chart for findings in all_findings for chart in findings.charts][:1]:
        yield f"![{chart.title}](../images/{paper.name}/{chart.name}.png)"
    yield paper.introduction.strip()
    if missed := [text for findings in all_findings for text in findings.missed]:
        yield "## Where it falls short"
        yield "\n".join(f"* {text}" for text in missed)
    yield "## Figures and conditions"
    yield "\n".join(_line(paper, findings) for findings in all_findings)
    yield from ("\n".join(f"* {text}" for text in findings.truth[:MAX_TRUTH]) for findings in alone)
    yield "The last column of each CSV says under which conditions its figures were found."


def _all_claims(claims: Sequence[tuple[Findings, Table]]) -> tuple[Heading, list[tuple[Cell, ...]]]:
    """Those of all experiments; where they are many, how many of each come out."""
    rows: list[tuple[Cell, ...]] = [(findings.name, *row) for findings, one in claims for row in one.rows]
    if len(rows) <= MAX_CLAIMS:
        return ("experiment", "claim", "figure", "ours", "wanted", "comes out"), rows
    counts: list[tuple[Cell, ...]] = [
        (findings.title, len(one.rows), sum(row[-1] == "yes" for row in one.rows), len(findings.missed))
        for findings, one in claims
    ]
    return ("experiment", "claims", "come out", "targets missed"), counts


def _line(paper: Paper, findings: Findings) -> str:
    """An experiment's title, its files, and its notes."""
    files = [f"{one.name}.csv" for one in findings.tables]
    links = [f"[picture](../images/{paper.name}/{one.name}.png)" for one in findings.charts[:1]]
    links += [f"[{file}]({paper.name}/{file})" for file in files]
    return " ".join([f"* **{findings.title}** ({', '.join(links)}).", *findings.notes])


def _spellings(text: str) -> str:
    """How the lines that a page names and no policy has as its name are given to commands."""
    told = []
    for name, (policy, parameters) in VARIANTS.items():
        if re.search(rf"\b{name}\b", text):
            options = " ".join(f"--set {policy}.{key}={value}" for key, value in parameters.items())
            told.append(f"`{name}` is `--policy {policy} {options}`")
    return f"\n\nNames of lines: {'; '.join(told)}." if told else ""


# Charts as PNG files; the same chart makes the same bytes

#: A picture has a palette: a quarter of the bytes.
NUM_COLOURS = 64
#: Inches. Pages show a picture some eight inches wide: a wider one would have smaller letters.
WIDTH, HEIGHT = 8.0, 4.4
TWO_PANELS_WIDTH = 10.0
PANELS_A_ROW = 2
#: Points: of a title, of all other words, of the values above bars.
TITLE, WORDS, SMALL = 11, 9, 7.5
#: Letters of a y label in a line, and in an inch of a legend or below an axis.
Y_LABEL_LETTERS, LETTERS_AN_INCH = 40, 12.0
#: On a chart with places each further line stands a little further right.
APART = 0.05
#: Bars have their values above them where there are no more than so many.
MAX_TOLD = 24
#: Of a group's place, bars take this share.
BARS_SHARE = 0.8
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


def draw(chart: Chart, folder: Path) -> Path:
    """Write `NAME.png`. Raises OSError."""
    file, whole = folder / f"{chart.name}.png", BytesIO()
    figure_of(chart).savefig(whole, dpi=110)
    image = Image.open(whole).convert("RGB")
    image.quantize(NUM_COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    return file


def figure_of(chart: Chart) -> Figure:
    """Draw the chart; its panels share the y axis, and a series has one colour in all of them."""
    num_columns = min(len(chart.panels), PANELS_A_ROW)
    num_rows = math.ceil(len(chart.panels) / num_columns)
    size = (WIDTH if num_columns == 1 else TWO_PANELS_WIDTH, HEIGHT * (0.2 + 0.8 * num_rows))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(num_rows, num_columns, squeeze=False, sharey=True).ravel()
    longest_first = sorted(chart.panels.values(), key=len, reverse=True)
    labels = list(dict.fromkeys(label for lines in longest_first for label in lines))
    handles: dict[str, Any] = {}
    for axes, title in zip_longest(grid, chart.panels):
        if title is None:
            axes.set_axis_off()
            continue
        handles |= _draw_lines(axes, chart, chart.panels[title], labels)
        _name_places(axes, chart, size[0] / num_columns)
        axes.set_title(title, fontsize=WORDS)
    for axes in grid[::num_columns]:
        axes.set_ylabel(fill(chart.y_label, Y_LABEL_LETTERS), fontsize=WORDS)
    least, most = grid[0].get_ylim()
    if chart.kind != "bars" and 0.0 <= least < 0.5 * most:
        grid[0].set_ylim(bottom=0.0)
    _add_legend(figure, labels, handles)
    figure.suptitle(chart.title, fontsize=TITLE)
    return figure


def _draw_lines(axes: Axes, chart: Chart, lines: Lines, labels: Sequence[str]) -> dict[str, Any]:
    """Draw those that have values; their signs for the legend by their labels."""
    told = [label for label in lines if any(value is not None for value in lines[label])]
    shown: dict[str, Any] = {}
    num_bars = len(told) * len(chart.x)
    for at, label in enumerate(told):
        values: FloatArray = np.array(lines[label], dtype=np.float64)
        number, right = labels.index(label), at - (len(told) - 1) / 2
        colour, dashes = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        style = {"color": colour, "ls": dashes, "lw": max(NARROWEST, WIDEST - NARROWER * number)}
        if chart.kind == "steps":
            (shown[label],) = axes.step(np.array(chart.x, dtype=float), values, where="post", **style)
        elif chart.kind == "lines":
            places = np.arange(len(values)) + APART * right
            (shown[label],) = axes.plot(places, values, marker=MARKS[number % len(MARKS)], ms=5, **style)
        else:
            wide = BARS_SHARE / len(told)
            places = np.arange(len(values)) + wide * right
            bars = axes.bar(places, values, 0.96 * wide, color=colour, label=label)
            shown[label] = bars
            if num_bars <= MAX_TOLD:
                axes.bar_label(
                    bars, ["" if np.isnan(one) else f"{one:.3g}" for one in values], fontsize=SMALL
                )
    if chart.kind == "bars":
        axes.axhline(0.0, color="black", lw=0.6)
        axes.margins(y=0.1)
    return shown


def _name_places(axes: Axes, chart: Chart, inches: float) -> None:
    """Names below the axis are aslant where they would touch, or upright where there are many."""
    axes.set_axisbelow(True)
    axes.grid(axis="y", lw=0.3)
    axes.tick_params(labelsize=WORDS)
    axes.set_xlabel(chart.x_label, fontsize=WORDS)
    if chart.kind == "steps":
        return
    names, room = [str(x) for x in chart.x], LETTERS_AN_INCH * inches
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_xticks(range(len(names)), names)
    if len(names) * (max(map(len, names), default=0) + 2) > room:
        is_many = 5 * len(names) > room
        how: dict[str, Any] = {"rotation": 90} if is_many else {"rotation": 45, "ha": "right"}
        for label in axes.get_xticklabels():
            label.set(rotation_mode="default" if is_many else "anchor", **how)


def _add_legend(figure: Figure, labels: Sequence[str], handles: dict[str, Any]) -> None:
    """Write the legend in one line if it fits. A series that was not measured has no sign, and says so."""
    told = [label if label in handles else f"{label}: not measured" for label in labels]
    room = LETTERS_AN_INCH * figure.get_figwidth()
    num_columns = (
        room // (max(map(len, told)) + 9) if sum(map(len, told)) + 9 * len(told) > room else len(told)
    )
    signs = [handles.get(label, Patch(visible=False)) for label in labels]
    figure.legend(signs, told, loc="outside lower center", ncols=max(int(num_columns), 1), fontsize=WORDS)
