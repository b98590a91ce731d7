"""What the pages of evaluations say beside their figures: `pages/PAPER.md`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class PageTexts(NamedTuple):
    """An introduction in Markdown, and remarks."""

    introduction: str
    remarks: Mapping[str, tuple[str, ...]]  #: paragraphs by the heading above them


def page_texts(paper: str) -> PageTexts:
    """Read the texts of a paper's page."""
    file = Path(__file__).parent / "pages" / f"{paper}.md"
    introduction, *sections = file.read_text(encoding="utf-8").split("\n## ")
    parts = (section.strip().split("\n\n") for section in sections)
    remarks = {name: tuple(" ".join(part.split("\n")) for part in told) for name, *told in parts}
    return PageTexts(introduction.strip(), remarks)
