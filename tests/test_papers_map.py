"""`docs/papers.md` tells the truth: what it names exists, and each mark but yes has a reason."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import pytest

from swell.policies.registry import POLICIES, parameters_of
from swell.settings import RULES
from swell_papers import bftrainer, elasticflow, flowcon, hu, saxena

ROOT = Path(__file__).parents[1]
PLACE = re.compile(r"`((?:src|papers/src|tests)/[\w/]+\.py):([\w.]+)`")
TEXT = (ROOT / "docs/papers.md").read_text()
COMMAND = re.compile(r"`([^`]+)`")
TARGETS = re.compile(r"^([\w-]+):", re.MULTILINE)
MARKS = ("yes", "part", "no")


class PaperRow(NamedTuple):
    """A row of a paper's table."""

    section: str
    part: str
    simulated: str
    live: str
    command: str
    code: str
    test: str
    reason: str


def _tables() -> list[list[list[str]]]:
    tables: list[list[list[str]]] = [[]]
    for line in TEXT.splitlines():
        if line.startswith("|"):
            tables[-1].append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])])
        elif tables[-1]:
            tables.append([])
    return tables


PAPER_ROWS = [
    PaperRow(*row) for table in _tables() if table and table[0][0] == "section" for row in table[2:]
]
#: Code and test of each row of the other tables, which map additions and baselines.
OTHER_ROWS = [
    (code, test) for table in _tables() if table and table[0][-1] == "test" for *_, code, test in table[2:]
]


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


@pytest.mark.parametrize("row", PAPER_ROWS, ids=lambda row: f"{row.section}: {row.part}"[:80])
def test_a_row_of_a_paper_names_code_and_a_test_that_exist_and_a_reason_for_each_mark_but_yes(
    row: PaperRow,
) -> None:
    check_places(row.code, row.test)
    assert row.simulated in MARKS
    assert row.live in MARKS
    assert (row.simulated == row.live == "yes") or row.reason != "-", f"no reason: {row}"
    assert row.command == "-" or COMMAND.findall(row.command), f"neither - nor a command: {row.command}"


@pytest.mark.parametrize("row", OTHER_ROWS)
def test_a_row_names_code_and_a_test_that_exist(row: tuple[str, str]) -> None:
    check_places(*row)


EXPERIMENTS = {
    module.PAPER.name: {experiment.name for experiment in module.PAPER.experiments}
    for module in (bftrainer, elasticflow, flowcon, hu, saxena)
}


def word_after(words: Sequence[str], option: str) -> str:
    """What an option has; nothing if it is not there."""
    return words[words.index(option) + 1] if option in words else ""


@pytest.mark.parametrize(
    "command", sorted({found for row in PAPER_ROWS for found in COMMAND.findall(row.command)})
)
def test_a_command_names_figures_policies_and_targets_that_exist(command: str) -> None:
    """Commands and options of `swell` are looked up by `test_docs`."""
    program, name, *words = shlex.split(command)
    if program == "make":
        assert name in TARGETS.findall((ROOT / "Makefile").read_text())
        return
    assert program == "swell"
    if name == "repro" and words[0] in EXPERIMENTS:
        assert set(takewhile(lambda word: not word.startswith("-"), words[1:])) <= EXPERIMENTS[words[0]]
    if policies := word_after(words, "--policy"):
        assert set(policies.split(",")) <= set(POLICIES)
    if setting := word_after(words, "--set"):
        policy, _, parameter = setting.partition("=")[0].rpartition(".")
        assert parameter in (parameters_of(policy) if policy else RULES)


def test_every_paper_has_its_rows() -> None:
    assert len(PAPER_ROWS) > 140
    assert len(OTHER_ROWS) > 30


def test_the_text_around_the_tables_names_only_what_exists() -> None:
    for file, name in PLACE.findall(TEXT):
        assert name in names_in(ROOT / file)
