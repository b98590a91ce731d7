"""What the commands that repeat an evaluation have in common: options, and where findings go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.destinations import check_folder, writing
from swell.cli.output import note
from swell_papers.cli.findings import show_findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from swell_papers.experiment import Paper
    from swell_papers.findings import Findings

Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Random seed.")]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The folders of a command for tables and for pages."""

    out: Path
    docs: Path | None = None

    def check(self) -> None:
        """Raises InvalidInput if something cannot be written."""
        check_folder("--out", self.out)
        check_folder("--docs", self.docs)

    def tell(self, findings: Findings) -> None:
        """Show and write them. Raises InvalidInput."""
        from swell_papers import findings_store

        show_findings(findings)
        with writing("--out", self.out):
            _note(findings_store.write(findings, self.out))

    def end(self, paper: Paper, all_findings: Sequence[Findings], is_reached: bool) -> None:
        """Write the page. Raises InvalidInput, and Exit if something was missed."""
        from swell_papers import findings_store

        if self.docs is not None:
            with writing("--docs", self.docs):
                _note(findings_store.write_page(paper, all_findings, self.docs))
        if not is_reached:
            raise typer.Exit(1)


def _note(files: Iterable[Path]) -> None:
    for file in files:
        note(f"wrote {file}")
