"""Finds a second call of `elastic` that a script is certain to make, in its source."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from swell.train.link.code_paths import submitted

_LEAVES = ast.Return | ast.Raise | ast.Break | ast.Continue


def second_call(script: str) -> str:
    """Return `FILE:LINE` of the second call, or of what makes it; empty: that there is one is not certain."""
    try:
        with open(script, encoding="utf-8") as file:
            body = ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError):
        return ""
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    lines = [*_calls(body, functions)]
    return f"{submitted(script)}:{lines[1]}" if len(lines) > 1 else ""


def _calls(body: Iterable[ast.stmt], functions: Mapping[str, ast.FunctionDef]) -> Iterator[int]:
    """Yield the line of each call of `elastic`, or of one of these functions that makes it for certain."""
    for statement in body:
        is_main = isinstance(statement, ast.If) and "__main__" in ast.dump(statement.test)
        if isinstance(statement, ast.With | ast.Try | ast.If) and (is_main or not hasattr(statement, "test")):
            yield from _calls(statement.body, functions)
        elif isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.Return):
            for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
                name = getattr(call.func, "attr", getattr(call.func, "id", ""))
                others = {other: node for other, node in functions.items() if other != name}
                if name == "elastic":
                    yield call.lineno
                elif isinstance(call.func, ast.Name) and name in functions:
                    yield from (call.lineno for _ in _calls(functions[name].body, others))
        if isinstance(statement, _LEAVES):
            return
