"""Where findings are kept: a folder with a file for machines, tables, pictures, and a page of all of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from swell.model.errors import InvalidInput
from swell_papers.experiment import CLAIM_COLUMNS, Paper
from swell_papers.findings import Findings, Table
from swell_papers.pictures import draw
from swell_papers.tables import cells, markdown, write_csv
from swell_papers.variants import VARIANTS

#: A page of one experiment shows tables of so many cells and so many lines of conditions; a page of several
#: shows so many notes of each. All are in files beside it.
MAX_CELLS = 160
MAX_TRUTH = 8
MAX_NOTES = 3


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
    pictures = [draw(chart, images) for one in (*summary, *all_findings) for chart in one.charts[:1]]
    page.write_text(_page(paper, summary, all_findings), encoding="utf-8")
    raw = [file for findings in all_findings for file in _write_raw(findings, page.with_suffix(""))]
    return [page, *pictures, *raw]


def _write_raw(findings: Findings, folder: Path) -> list[Path]:
    """Write tables as CSV, and notes as text where the page has the first ones only. Raises OSError."""
    folder.mkdir(exist_ok=True)
    files = [write_csv(table, findings.truth, folder) for table in findings.tables]
    if len(findings.notes) > MAX_NOTES:
        files.append(folder / f"{findings.name}.txt")
        files[-1].write_text("\n".join(findings.notes) + "\n", encoding="utf-8")
    return files


def _page(paper: Paper, summary: Sequence[Findings], all_findings: Sequence[Findings]) -> str:
    """One screen of what came out, then a line for each experiment."""
    head = f"<!-- Written by `swell repro {paper.name}`; change the program, not this page. -->"
    shown = [*summary, *(all_findings if len(all_findings) == 1 else ())]
    parts = [f"# {paper.title}", head]
    for findings in shown:
        small = [table for table in findings.tables if len(table.rows) * len(table.columns) <= MAX_CELLS]
        parts += [part for table in small or findings.tables[:1] for part in _section(table)]
        parts += [_picture(paper, findings)] if findings.charts else []
        parts += ["\n".join(f"* {note}" for note in findings.notes)] if findings.notes else []
    parts += [paper.introduction.strip()]
    parts += _claims(all_findings) if len(all_findings) > 1 else []
    drawn = [findings for findings in all_findings if findings.charts]
    parts += [_picture(paper, drawn[0])] if drawn and not shown else []
    missed = [f"* {text}" for findings in all_findings for text in findings.missed]
    reasons = defaultdict[str, dict[str, None]](dict)
    for what, why in (reason for findings in all_findings for reason in findings.reasons):
        reasons[why][what] = None
    missed += [f"* {', '.join(whats)}: {why}" for why, whats in reasons.items()]
    parts += ["## Where it falls short", "\n".join(missed)] if missed else []
    parts += ["## Figures and conditions"]
    if len(all_findings) > 1:
        parts += ["\n".join(_line(paper, one) for one in all_findings)]
    else:
        for findings in all_findings:
            parts += [f"Raw: {_files(paper, findings)}."]
            parts += ["\n".join(f"* {text}" for text in findings.truth[:MAX_TRUTH])]
    parts += ["The last column of each CSV says under which conditions its figures were found."]
    spellings = _spellings("\n".join(parts))
    parts += [f"Names of lines: {spellings}."] if spellings else []
    return "\n\n".join(parts) + "\n"


def _section(table: Table) -> list[str]:
    """Its caption and itself."""
    return [table.title[:1].upper() + table.title[1:] + ":", markdown(table)]


def _picture(paper: Paper, findings: Findings) -> str:
    chart = findings.charts[0]
    return f"![{chart.title}](../images/{paper.name}/{chart.name}.png)"


def _claims(all_findings: Iterable[Findings]) -> list[str]:
    """The claims of all experiments in one table, behind the name of each one's experiment."""
    told = [
        (findings.name, row)
        for findings in all_findings
        for table in findings.tables
        if table.name == f"{findings.name}-claims"
        for row in cells(table)
    ]
    if not told:
        return []
    heading = ("experiment", *CLAIM_COLUMNS)
    rows = [heading, ("---",) * len(heading), *((name, *row) for name, row in told)]
    return ["## What comes out", "\n".join("| " + " | ".join(row) + " |" for row in rows)]


def _line(paper: Paper, findings: Findings) -> str:
    """An experiment's title, its files, and its first notes."""
    return " ".join([f"* **{findings.title}** ({_files(paper, findings)}).", *findings.notes[:MAX_NOTES]])


def _files(paper: Paper, findings: Findings) -> str:
    """Links to the picture, the tables and the notes of an experiment."""
    files = [f"{one.name}.csv" for one in findings.tables]
    files += [f"{findings.name}.txt"] if len(findings.notes) > MAX_NOTES else []
    links = [f"[picture](../images/{paper.name}/{one.name}.png)" for one in findings.charts[:1]]
    return ", ".join([*links, *(f"[{file}]({paper.name}/{file})" for file in files)])


def _spellings(text: str) -> str:
    """How the lines that a page names and no policy has as its name are given to commands."""
    told = []
    for name, (policy, parameters) in VARIANTS.items():
        if re.search(rf"\b{name}\b", text):
            options = " ".join(f"--set {policy}.{key}={value}" for key, value in parameters.items())
            told.append(f"`{name}` is `--policy {policy} {options}`")
    return "; ".join(told)
