"""Finds, in the source of a script that calls `elastic`, the place at which it will do so once more."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, FrameType, FunctionType

from swell.train.link.code_paths import submitted

#: Of these statements all that stands in them is certain to be done, and of those their bodies.
_PLAIN = ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return
_ENTERED = ast.With | ast.Try
_LEAVES = ast.Return | ast.Raise | ast.Break | ast.Continue


def later_call(frames: Iterable[FrameType]) -> str:
    """Return `FILE:LINE` where what these functions have called is called again; empty: that is not certain.

    Args:
        frames: functions that have called each other, the innermost first.
    """
    made = ""
    for frame in frames:
        path = [*_path(_tree_of(frame.f_code), frame.f_lineno)]
        calls = _calls([path[-1][1]] if path else [])
        if not (now := next((ast.dump(call.func) for call in calls if _is_at(call, frame)), "")):
            return ""
        made = made or now
        for call in _calls(_until_left(rest for _, _, rest in reversed(path))):
            if ast.dump(call.func) == now or made in _made_by(call.func, frame):
                return f"{submitted(frame.f_code.co_filename)}:{call.lineno}"
        if not all(isinstance(node, ast.Module | ast.FunctionDef | _ENTERED) for node, _, _ in path):
            return ""  # a second call of this function may not come as far
    return ""


def _tree_of(code: CodeType) -> ast.AST:
    """The source of a function, or of a module."""
    try:
        with open(code.co_filename, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])
    named = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == code.co_name
    )
    first = code.co_firstlineno
    return next(
        (node for node in named if first in (node.lineno, *(d.lineno for d in node.decorator_list))), tree
    )


def _path(node: ast.AST, line: int) -> Iterator[tuple[ast.AST, ast.stmt, Sequence[ast.stmt]]]:
    """Yield each block around a line, the outermost first: whose it is, the statement there, and the rest."""
    for _, block in ast.iter_fields(node):
        for place, each in enumerate(block if isinstance(block, list) else []):
            if isinstance(each, ast.stmt) and each.lineno <= line <= (each.end_lineno or 0):
                yield node, each, block[place + 1 :]
                yield from _path(each, line)


def _until_left(blocks: Iterable[Sequence[ast.stmt]]) -> Iterator[ast.stmt]:
    for statement in (one for block in blocks for one in block):
        yield statement
        if isinstance(statement, _LEAVES):
            return


def _calls(statements: Iterable[ast.stmt]) -> Iterator[ast.Call]:
    """Yield the calls that these statements are certain to make."""
    for statement in statements:
        if isinstance(statement, _ENTERED):
            yield from _calls(statement.body)
        elif isinstance(statement, _PLAIN):
            yield from (node for node in ast.walk(statement) if isinstance(node, ast.Call))


def _is_at(call: ast.Call, frame: FrameType) -> bool:
    """Whether this is the call that a function stands in."""
    place = [*frame.f_code.co_positions()][frame.f_lasti // 2]
    return place == (call.lineno, call.end_lineno, call.col_offset, call.end_col_offset)


def _made_by(name: ast.expr, frame: FrameType) -> set[str]:
    """What a function of the script calls for certain, if it is one that a name stands for."""
    made = {**frame.f_globals, **frame.f_locals}.get(getattr(name, "id", ""))
    if not isinstance(made, FunctionType):
        return set()
    return {ast.dump(call.func) for call in _calls(getattr(_tree_of(made.__code__), "body", []))}
