"""What a script's text states of its batch and of its end, where a submission leaves them out.

Only plain numbers are taken, or names that stand for one number in the whole text: what a script computes, or
takes from its arguments, is known only once it runs.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import lru_cache
from typing import NamedTuple

#: Scripts of which it is remembered what they state: a sweep submits one many times.
MOST_REMEMBERED = 32


class ScriptNumbers(NamedTuple):
    """Numbers that a script gives to `elastic`; None: it states none, or not as a plain number."""

    batch: int | None = None  #: samples, of the loader
    epochs: int | None = None
    steps: int | None = None


def numbers_of(path: str) -> ScriptNumbers:
    """Read what a script states in its one call of `elastic`; nothing if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return _numbers_in(file.read())
    except OSError:
        return ScriptNumbers()


@lru_cache(maxsize=MOST_REMEMBERED)
def _numbers_in(text: bytes) -> ScriptNumbers:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ScriptNumbers()  # that it is no Python is told where it is checked
    calls = [node for node in ast.walk(tree) if _is_call(node, "elastic")]
    if len(calls) != 1:
        return ScriptNumbers()
    text_of = _Text(tree)
    loader = text_of.meant(_argument(calls[0], "loader", 2))
    batch = _argument(loader, "batch_size", 1) if _is_call(loader, "DataLoader") else None
    ends = [_argument(calls[0], name, None) for name in ("epochs", "steps")]
    return ScriptNumbers(*(text_of.number(expression) for expression in (batch, *ends)))


def _is_call(node: ast.AST | None, name: str) -> bool:
    """Whether it calls what has this name, of a module or by itself."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return called == name


def _argument(call: ast.AST | None, name: str, place: int | None) -> ast.expr | None:
    """An argument of a call, by its name or its place; None: it has none."""
    assert isinstance(call, ast.Call)  # noqa: S101 - the caller has asked
    by_name = [keyword.value for keyword in call.keywords if keyword.arg == name]
    if by_name or place is None or len(call.args) <= place:
        return by_name[0] if by_name else None
    is_known = not any(isinstance(each, ast.Starred) for each in call.args[: place + 1])
    return call.args[place] if is_known else None


class _Text:
    """What the names of a script stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self._bound: dict[str, list[ast.expr | None]] = defaultdict(list)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._bind(node.targets[0], node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                self._bind(node.target, node.value)
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self._bound[node.id].append(None)
            elif isinstance(node, ast.arg):
                self._bound[node.arg].append(None)
            elif isinstance(node, ast.alias):
                self._bound[(node.asname or node.name).partition(".")[0]].append(None)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._bound[target.id].append(value)

    def meant(self, expression: ast.expr | None) -> ast.expr | None:
        """The expression that a name stands for, if it is set once in the whole script."""
        if not isinstance(expression, ast.Name):
            return expression
        values = [value for value in self._bound[expression.id] if value is not None]
        return (
            values[0] if len(values) == 1 and len(self._bound[expression.id]) == 2 else None
        )  # with its name

    def number(self, expression: ast.expr | None) -> int | None:
        meant = self.meant(expression)
        value = meant.value if isinstance(meant, ast.Constant) else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None
