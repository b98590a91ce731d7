"""A division that is left of accumulating gradients over batches, where each batch has a step of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any, NamedTuple


class LeftDivisor(NamedTuple):
    """A loss is divided before its only backward pass of a step."""

    text: str  #: the divisor, as the script writes it
    value: int
    line: int


def left_divisor(frame: FrameType) -> LeftDivisor | None:
    """The division of a loss by a number of batches to accumulate, in the function that calls `backward`.

    Args:
        frame: of that function, which is at the call.
    """
    try:
        with open(frame.f_code.co_filename, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return None
    calls = [node for node in ast.walk(tree) if _is_backward(node, frame.f_lineno)]
    scope = _scope_of(tree, frame.f_lineno)
    for name, division in _divisions(calls, scope):
        value = _value_of(division.right, frame)
        if "accum" in name and isinstance(value, int) and value > 1:
            return LeftDivisor(ast.unparse(division.right), value, division.lineno)
    return None


class _Division(NamedTuple):
    right: ast.expr
    lineno: int


def _is_backward(node: ast.AST, line: int) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "backward" and node.lineno <= line <= (node.end_lineno or 0)


def _scope_of(tree: ast.Module, line: int) -> ast.AST:
    scopes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return scopes[-1] if scopes else tree


def _divisions(calls: Iterable[ast.AST], scope: ast.AST) -> Iterator[tuple[str, _Division]]:
    """Divisions in these calls, and of the names that they hold, each with the divisor's name."""
    nodes = [node for call in calls for node in ast.walk(call)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    for node in ast.walk(scope):
        if (
            isinstance(node, ast.AugAssign)
            and isinstance(node.op, ast.Div)
            and _is_one_of(node.target, names)
        ):
            yield _last_name(node.value), _Division(node.value, node.lineno)
        if isinstance(node, ast.Assign) and any(_is_one_of(target, names) for target in node.targets):
            nodes.append(node.value)
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield _last_name(node.right), _Division(node.right, node.lineno)


def _is_one_of(target: ast.AST, names: set[str]) -> bool:
    return isinstance(target, ast.Name) and target.id in names


def _last_name(expression: ast.expr) -> str:
    if isinstance(expression, ast.Attribute):
        return expression.attr.lower()
    return expression.id.lower() if isinstance(expression, ast.Name) else ""


def _value_of(expression: ast.expr, frame: FrameType) -> Any:
    if isinstance(expression, ast.Attribute):
        return getattr(_value_of(expression.value, frame), expression.attr, None)
    if isinstance(expression, ast.Name):
        return frame.f_locals.get(expression.id, frame.f_globals.get(expression.id))
    return None
