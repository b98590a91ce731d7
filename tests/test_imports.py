"""No module imports itself, through however many others."""

from __future__ import annotations

import grimp


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
