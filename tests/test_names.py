"""A class name stands once in the package: who reads it, or searches for it, finds one class."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import swell

SOURCES = Path(swell.__file__).parent


def test_a_class_name_stands_once() -> None:
    files: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(str(file.relative_to(SOURCES)))
    twice = {name: where for name, where in files.items() if len(where) > 1}
    assert twice == {}
