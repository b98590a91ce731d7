"""Where findings are kept: a folder with a file for machines, tables, pictures, and a page of all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from swell.model.errors import InvalidInput
from swell_papers.experiment import Paper
from swell_papers.findings import Chart, Findings, Table
from swell_papers.pictures import draw
from swell_papers.tables import markdown, write_csv

#: What the pictures of a page are drawn from, in their folder: they can be drawn again without a run.
CHARTS = "charts.json"
#: A page shows first tables of so many cells, other tables of so few rows that say what was to be reached,
#: and so many notes of an experiment. All are in files beside it.
MAX_PAGE_CELLS = 48
MAX_TARGET_ROWS = 8
MAX_NOTES = 4


def write(findings: Findings, folder: Path) -> list[Path]:
    """`NAME.json`, a CSV for each table, a PNG for each chart. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / f"{findings.name}.json"
    whole.write_bytes(msgspec.json.format(msgspec.json.encode(findings), indent=1) + b"\n")
    tables = [write_csv(table, findings.truth, folder) for table in findings.tables]
    return [whole, *tables, *(draw(chart, folder) for chart in findings.charts)]


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
    for folder in (page.parent, images):
        folder.mkdir(parents=True, exist_ok=True)
    summary = [paper.summary(all_findings)] if paper.summary is not None and all_findings else []
    charts = [chart for findings in (*summary, *all_findings) for chart in findings.charts]
    pictures = [draw(chart, images) for chart in charts]
    page.write_text(_page(paper, summary, all_findings), encoding="utf-8")
    raw = [file for findings in all_findings for file in _write_raw(findings, page.with_suffix(""))]
    return [page, *pictures, write_charts(charts, images), *raw]


def _write_raw(findings: Findings, folder: Path) -> list[Path]:
    """Write tables as CSV, and notes as text where the page has the first ones only. Raises OSError."""
    folder.mkdir(exist_ok=True)
    files = [write_csv(table, findings.truth, folder) for table in findings.tables]
    if len(findings.notes) > MAX_NOTES:
        files.append(folder / f"{findings.name}.txt")
        files[-1].write_text("\n".join(findings.notes) + "\n", encoding="utf-8")
    return files


def write_charts(charts: Iterable[Chart], folder: Path) -> Path:
    """One a line. Raises OSError."""
    file = folder / CHARTS
    file.write_bytes(b"[\n" + b",\n".join(map(msgspec.json.encode, charts)) + b"\n]\n")
    return file


def read_charts(file: Path) -> list[Chart]:
    """Raises OSError, and InvalidInput for a file of another version."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Chart])
    except msgspec.MsgspecError as error:
        raise InvalidInput(
            f"{file} cannot be read ({error}); write the page again with swell repro --docs"
        ) from error


def _page(paper: Paper, summary: Iterable[Findings], all_findings: Sequence[Findings]) -> str:
    head = f"<!-- Written by `swell repro {paper.name}`; change the program, not this page. -->"
    parts = [f"# {paper.title}", head]
    for findings in summary:
        parts += [*_shown(paper, findings, math.inf), f"## {findings.title}"]
    parts += [paper.introduction.strip()]
    for findings in all_findings:
        parts += [f"## {findings.title}", *_shown(paper, findings)]
        missed = [f"* {text}" for text in findings.missed]
        parts += ["Not reached:", "\n".join(missed)] if missed else []
        files = [f"{one.name}.csv" for one in findings.tables]
        files += [f"{findings.name}.txt"] if len(findings.notes) > MAX_NOTES else []
        parts += ["Raw: " + ", ".join(f"[{file}]({paper.name}/{file})" for file in files) + "."]
        parts += ["Truth: " + findings.truth[0] + "."]
    reasons = dict(reason for findings in all_findings for reason in findings.reasons)
    if reasons:
        parts += ["## Why figures differ", "\n".join(f"* {what}: {why}" for what, why in reasons.items())]
    return "\n\n".join(parts) + "\n"


def _shown(paper: Paper, findings: Findings, most_cells: float = MAX_PAGE_CELLS) -> list[str]:
    """Small first table, pictures, the first notes, then small tables of what was to be reached."""
    first, others = findings.tables[:1], findings.tables[1:]
    parts = [
        part
        for table in first
        if len(table.rows) * len(table.columns) <= most_cells
        for part in _section(table)
    ]
    parts += [f"![{chart.title}](../images/{paper.name}/{chart.name}.png)" for chart in findings.charts]
    parts += ["\n".join(f"* {note}" for note in findings.notes[:MAX_NOTES])] if findings.notes else []
    for table in others:
        names = {column.name for column in table.columns}
        if names & {"claim", "to reach"} and len(table.rows) <= MAX_TARGET_ROWS:
            parts += _section(table)
    return parts


def _section(table: Table) -> list[str]:
    """Its caption and itself."""
    return [table.title[:1].upper() + table.title[1:] + ":", markdown(table)]
