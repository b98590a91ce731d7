"""Hooks of MkDocs: pages that are made of the program or are the papers', and links out of the documents."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
#: The functions that make pages of the program, by name.
MADE = runpy.run_path(str(ROOT / "docs/make_reference.py"))
#: Pages of the site that stand at the root of the repository.
ROOT_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")
#: The papers' pages lie in the site as if they were in this folder.
PAPERS = ROOT / "papers/docs"
_LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([^)#\s]+)(#[^)\s]*)?\)")
_FROM_ROOT = re.compile(r"\]\((papers/)?docs/")
_IN_SITE = re.compile(r"(papers/)?docs/")


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages of the reference, the papers' pages, and the pages at the root."""
    for path in sorted(path for path in PAPERS.rglob("*") if path.is_file()):
        name = path.relative_to(PAPERS).as_posix()
        files.append(File(name, str(PAPERS), config.site_dir, config.use_directory_urls))
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
    """Turn links to files that no page of the site has into their paths."""
    return _LINK.sub(lambda link: _linked(link, page, files), markdown)


def _linked(link: re.Match[str], page: Page, files: Files) -> str:
    """Return a link, or its text and the path of its file if that is outside of the documents."""
    text, path, anchor = link[1], link[2], link[3] or ""
    up = link[0].count("../")
    depth = page.file.src_uri.count("/")
    if up <= depth:
        return link[0]
    inside = _IN_SITE.sub("", path, count=1) if _IN_SITE.match(path) else path
    if inside != path or path in ROOT_PAGES:
        return f"[{text}]({'../' * depth}{inside}{anchor})"
    return text if path in text else f"{text} (`{path}`)"
