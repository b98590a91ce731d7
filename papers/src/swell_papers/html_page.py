"""Findings as one HTML file that can be sent around: `swell repro NAME --html`."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from swell.web.assets import uplot_version
from swell.web.prose import blocks, words
from swell.web.self_contained import self_contained
from swell_papers.experiment import Paper
from swell_papers.findings import Chart, Findings, Table
from swell_papers.findings_store import MAX_PAGE_ROWS
from swell_papers.program_version import program_version
from swell_papers.tables import cells


class Introduction(NamedTuple):
    """What stands between findings."""

    title: str
    text: str  #: Markdown


def write_paper(file: Path, paper: Paper, all_findings: Sequence[Findings], command: str) -> None:
    """Its summary, then its introduction, then the findings. Raises OSError."""
    if paper.summary is None or not all_findings:
        write_html(file, paper.title, [Introduction("", paper.introduction), *all_findings], command)
        return
    summary = paper.summary(all_findings)
    introduction = Introduction(summary.title, paper.introduction)
    first = msgspec.structs.replace(summary, title="Summary")
    write_html(file, paper.title, [first, introduction, *all_findings], command)


def write_html(file: Path, title: str, parts: Sequence[Findings | Introduction], command: str) -> None:
    """Raises OSError.

    Args:
        parts: sections of the report, in order.
        command: that made it, as a shell takes it.
    """
    all_findings = [part for part in parts if isinstance(part, Findings)]
    reasons = dict(reason for findings in all_findings for reason in findings.reasons)
    text = self_contained(
        "findings.html",
        "static/findings.js",
        ("static/base.css", "static/curves.css", "static/report.css"),
        {"charts": [[_chart(chart) for chart in findings.charts] for findings in all_findings]},
        title=title,
        sections=list(_sections(parts)),
        most_rows=MAX_PAGE_ROWS,
        reasons=[(what, words(why)) for what, why in reasons.items()],
        command=command,
        versions=f"{program_version()}, Python {platform.python_version()}, uPlot {uplot_version()}",
    )
    file.write_text(text, encoding="utf-8")


def _chart(chart: Chart) -> Mapping[str, Any]:
    return {**msgspec.to_builtins(chart), "needs_log": chart.needs_log}


def _sections(parts: Sequence[Findings | Introduction]) -> Iterator[Mapping[str, Any]]:
    place = 0
    for part in parts:
        if isinstance(part, Findings):
            yield _shown(part, place)
            place += 1
        elif part.text:
            yield {"title": part.title, "introduction": list(blocks(part.text))}


def _shown(findings: Findings, place: int) -> Mapping[str, Any]:
    return {
        "place": place,
        "title": findings.title,
        "tables": list(map(_table, findings.tables)),
        "charts": [
            {"title": chart.title, "panels": [panel.title for panel in chart.panels]}
            for chart in findings.charts
        ],
        "notes": list(map(words, findings.notes)),
        "missed": findings.missed,
        "truth": findings.truth,
    }


def _table(table: Table) -> Mapping[str, Any]:
    return {
        "title": table.title[:1].upper() + table.title[1:],
        "names": [column.name for column in table.columns],
        "are_numbers": [
            not any(isinstance(row[at], str) for row in table.rows) for at in range(len(table.columns))
        ],
        "rows": cells(table),
    }
