"""`docs/papers.md` tells the truth: each function and each test it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACE = re.compile(r"`((?:src|tests)/[\w/]+\.py):([\w.]+)`")
ROWS = [line for line in (ROOT / "docs/papers.md").read_text().splitlines() if line.startswith("| ")]


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


@pytest.mark.parametrize("row", [row for row in ROWS if not row.startswith("| paper")])
def test_a_row_names_code_and_a_test_that_exist(row: str) -> None:
    *_, code, test, _ = row.split("|")
    for cell, folder in ((code, "src/"), (test, "tests/")):
        places = PLACE.findall(cell)
        assert places, f"names nothing in {folder}: {cell}"
        for file, name in places:
            assert file.startswith(folder)
            assert (ROOT / file).is_file(), f"{file} does not exist"
            assert name in names_in(ROOT / file), f"{file} has no {name}"
        assert folder == "src/" or all(name.startswith("test_") for _, name in places)


def test_the_map_is_not_empty() -> None:
    assert len(ROWS) > 15


def test_the_text_around_the_tables_names_only_what_exists() -> None:
    for file, name in PLACE.findall((ROOT / "docs/papers.md").read_text()):
        assert name in names_in(ROOT / file)
