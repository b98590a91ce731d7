"""Names and first lines of docstrings are for readers who do not know the subject yet.

A class name stands once in Swell and its papers: who searches for it finds one class.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import swell
import swell_papers

SOURCES = (Path(swell.__file__).parent, Path(swell_papers.__file__).parent)


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
