"""What the commands that repeat an evaluation have in common: options, and where findings go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.command_line import command_line
from swell.cli.destinations import check_files, check_folder, writing
from swell.cli.output import note
from swell_papers.cli.findings import show_findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from swell_papers.experiment import Paper
    from swell_papers.findings import Findings

Html = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="REPORT.html",
        help="Also write a report that a browser opens: one file, from all findings in --out.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Random seed.")]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A command that was invoked, and its folders for tables, for pages, and its file for a report."""

    invoked: typer.Context
    out: Path
    docs: Path | None = None
    html: Path | None = None

    def check(self) -> None:
        """Raises InvalidInput if something cannot be written."""
        check_folder("--out", self.out)
        check_folder("--docs", self.docs)
        check_files({"--html": self.html}, ())

    def tell(self, findings: Findings) -> None:
        """Show and write them. Raises InvalidInput."""
        from swell_papers import findings_store

        show_findings(findings)
        with writing("--out", self.out):
            _note(findings_store.write(findings, self.out))

    def end(self, paper: Paper, all_findings: Sequence[Findings], is_reached: bool) -> None:
        """Write the page and the report. Raises InvalidInput, and Exit if something was missed."""
        from swell_papers import findings_store, html_page

        if self.docs is not None:
            with writing("--docs", self.docs):
                _note(findings_store.write_page(paper, all_findings, self.docs))
        if self.html is not None:
            with writing("--html", self.html):
                html_page.write_paper(self.html, paper, all_findings, command_line(self.invoked))
            _note([self.html])
        if not is_reached:
            raise typer.Exit(1)


def _note(files: Iterable[Path]) -> None:
    for file in files:
        note(f"wrote {file}")
