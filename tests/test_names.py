"""A class name stands once in Swell and its papers, and no module imports itself through others."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import grimp

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


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = grimp.build_graph("swell", "swell_papers")
    done: set[str] = set()
    path: list[str] = []

    def visit(module: str) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module in done:
            return
        path.append(module)
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            visit(imported)
        path.pop()
        done.add(module)

    for module in sorted(graph.modules):
        visit(module)
