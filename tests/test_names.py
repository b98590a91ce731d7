"""Names and first lines of docstrings are for readers who do not know the subject yet.

A class name stands once in Swell and its papers: who searches for it finds one class.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import swell
import swell_papers

SOURCES = (Path(swell.__file__).parent, Path(swell_papers.__file__).parent)
#: A first line that opens with one of these says something of a thing that it does not name.
BARE = re.compile(r"(Of|For|As|With|In|On|At|By|To|From|And|But|Or)\b")


def parsed() -> Iterator[tuple[str, ast.Module]]:
    for folder in SOURCES:
        for file in sorted(folder.rglob("*.py")):
            yield str(file.relative_to(folder.parent)), ast.parse(file.read_text())


def test_a_class_name_stands_once() -> None:
    files: defaultdict[str, list[str]] = defaultdict(list)
    for file, module in parsed():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(file)
    twice = {name: where for name, where in files.items() if len(where) > 1}
    assert twice == {}


def test_the_first_line_of_a_docstring_names_its_subject() -> None:
    bare = list[str]()
    for file, module in parsed():
        for node in ast.walk(module):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if BARE.match(text):
                    bare.append(f"{file}: {text.splitlines()[0]}")
    assert bare == []
