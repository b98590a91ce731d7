"""Where findings are kept: a folder with a file for machines, tables, pictures, and a page of all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from swell.model.errors import InvalidInput
from swell_papers.experiment import Paper
from swell_papers.findings import Cell, Findings, Heading, Table, markdown, table, write_csv
from swell_papers.pictures import draw
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
    claims = [(findings, one) for findings in all_findings for one in findings.tables if _is_claims(one)]
    told = table("claims", "", *_all_claims(claims))
    alone = all_findings if len(all_findings) == 1 else ()
    for one in (*(one for findings in alone for one in findings.tables), *(() if alone else (told,))):
        if one.rows and len(one.rows) * len(one.columns) <= MAX_CELLS:
            yield markdown(one)
    yield from (_picture(paper, findings) for findings in [one for one in all_findings if one.charts][:1])
    yield paper.introduction.strip()
    if missed := [text for findings in all_findings for text in findings.missed]:
        yield "## Where it falls short"
        yield "\n".join(f"* {text}" for text in missed)
    yield "## Figures and conditions"
    yield "\n".join(_line(paper, findings) for findings in all_findings)
    yield from ("\n".join(f"* {text}" for text in findings.truth[:MAX_TRUTH]) for findings in alone)
    yield "The last column of each CSV says under which conditions its figures were found."


def _is_claims(one: Table) -> bool:
    return one.name.endswith("-claims")


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


def _picture(paper: Paper, findings: Findings) -> str:
    chart = findings.charts[0]
    return f"![{chart.title}](../images/{paper.name}/{chart.name}.png)"


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
