"""Hooks of MkDocs: pages that are made of the program, and links to files outside of the documents."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
#: The functions that make pages and sections of the program, by name.
MADE = runpy.run_path(str(ROOT / "docs/make_reference.py"))
#: Pages of the site that stand at the root of the repository.
ROOT_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")
_LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([^)#\s]+)(#[^)\s]*)?\)")
_FROM_ROOT = re.compile(r"\]\(docs/")


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages of the reference, and the pages at the root of the repository."""
    for name, page in MADE["PAGES"].items():
        files.append(File.generated(config, f"reference/{name}", content=page()))
    files.append(File.generated(config, "adr/index.md", content=_decisions()))
    for name in ROOT_PAGES:
        text = _FROM_ROOT.sub("](", (ROOT / name).read_text("utf-8"))
        files.append(File.generated(config, name, content=text.replace("](adr/)", "](adr/index.md)")))
    return files


def _decisions() -> str:
    """Return the page that lists the records of decisions by their headings."""
    files = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
    headings = [file.read_text("utf-8").partition("\n")[0].removeprefix("# ") for file in files]
    lines = [f"* [{heading}]({file.name})\n" for heading, file in zip(headings, files, strict=True)]
    return f"# Decisions\n\nEach with its reasons, consequences and alternatives.\n\n{''.join(lines)}"


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Fill in the generated sections; turn links to files that no page of the site has into their paths."""
    for name, content in MADE["SECTIONS"].items():
        markdown = markdown.replace(f"<!-- {name} -->", content())
    return _LINK.sub(lambda link: _linked(link, page, files), markdown)


def _linked(link: re.Match[str], page: Page, files: Files) -> str:
    """Return a link, or its text and the path of its file if that is outside of the documents."""
    text, path, anchor = link[1], link[2], link[3] or ""
    up = link[0].count("../")
    depth = page.file.src_uri.count("/")
    if up <= depth:
        return link[0]
    if path in ROOT_PAGES:
        return f"[{text}]({'../' * depth}{path}{anchor})"
    return text if path in text else f"{text} (`{path}`)"
