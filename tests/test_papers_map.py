"""The maps from the papers to the code tell the truth: what they name exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PLACE = re.compile(r"`((?:src|papers/src|tests)/[\w/]+\.py):([\w.]+)`")
PAPERS = ("bftrainer", "elasticflow", "flowcon", "hu", "saxena")
TEXTS = {name: (ROOT / f"papers/docs/{name}.md").read_text() for name in (*PAPERS, "papers")}


class MapRow(NamedTuple):
    """A row of a map: where a part of a paper is, and the test of what the paper promises."""

    page: str
    part: str
    code: str
    test: str


def _rows() -> list[MapRow]:
    rows, columns = [], list[str]()
    for page, text in TEXTS.items():
        for line in text.splitlines():
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
            if not line.startswith("|"):
                columns = []
            elif not columns:
                columns = cells
            elif "test" in columns and not line.startswith("|--"):
                at = columns.index("test")
                rows.append(MapRow(page, cells[1], cells[at - 1], cells[at]))
    return rows


ROWS = _rows()


@cache
def names_in(path: Path) -> frozenset[str]:
    """Functions and classes of a file; methods as `Class.method`."""

    def walk(body: list[ast.stmt], prefix: str) -> set[str]:
        names = set()
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                names |= walk(node.body, f"{node.name}.")
        return names

    return frozenset(walk(ast.parse(path.read_text()).body, ""))


def check_places(code: str, test: str) -> None:
    """Each cell names a place of its folder, and each such place is there."""
    for cell, folders in ((code, ("src/", "papers/src/")), (test, ("tests/",))):
        places = PLACE.findall(cell)
        assert places, f"names nothing in {folders}: {cell}"
        for file, name in places:
            assert file.startswith(folders)
            assert (ROOT / file).is_file(), f"{file} does not exist"
            assert name in names_in(ROOT / file), f"{file} has no {name}"
        assert "src/" in folders or all(name.split(".")[-1].startswith("test_") for _, name in places)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.page}: {row.part}"[:80])
def test_a_row_names_code_and_a_test_that_exist(row: MapRow) -> None:
    check_places(row.code, row.test)


def test_every_paper_has_its_rows() -> None:
    assert all(sum(row.page == paper for row in ROWS) > 30 for paper in PAPERS)
    assert sum(row.page == "papers" for row in ROWS) > 25


@pytest.mark.parametrize("page", TEXTS)
def test_the_text_around_the_tables_names_only_what_exists(page: str) -> None:
    for file, name in PLACE.findall(TEXTS[page]):
        assert name in names_in(ROOT / file)
