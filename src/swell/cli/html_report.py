"""`--html` of the commands that repeat an evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.destinations import check_files, writing
from swell.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swell.repro.experiment import Paper
    from swell.repro.findings import Findings

Html = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="REPORT.html",
        help="Also write a report that a browser opens: one file, from all findings in --out.",
    ),
]


@dataclass(frozen=True, slots=True)
class HtmlReport:
    """A file that is to be written, and the command that does; None: no file."""

    file: Path | None
    command: str

    def check(self) -> None:
        """Raises InvalidInput if the file cannot be written."""
        check_files({"--html": self.file}, ())

    def write_paper(self, paper: Paper, out: Path) -> None:
        """Write the report of a paper from the findings in its folder. Raises InvalidInput."""
        if self.file is None:
            return
        from swell.repro import findings_store, html_page

        with writing("--html", self.file):
            html_page.write_paper(self.file, paper, findings_store.read(paper, out), self.command)
        note(f"wrote {self.file}")

    def write(self, title: str, introduction: str, all_findings: Sequence[Findings]) -> None:
        """Write a report of these findings after an introduction in Markdown. Raises InvalidInput."""
        if self.file is None:
            return
        from swell.repro import html_page

        with writing("--html", self.file):
            first = html_page.Introduction("", introduction)
            html_page.write_html(self.file, title, (first, *all_findings), self.command)
        note(f"wrote {self.file}")
