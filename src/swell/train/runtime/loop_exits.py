"""What a loop goes by that each worker has for itself, found in its source.

That is what a `for` counts that takes its batches with `next`, and values of a worker's own part of the batch
that decide when a function leaves its loop.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from types import FrameType
from typing import NamedTuple

from swell.train.link.code_paths import place_of, submitted

#: What to write where `next` finds no batch.
NEXT_EPOCH = "run.batches() gives the batches of one epoch; call it again for those of the next"
NEXT_AT_END = (
    "The job's steps are done, and the script asks for another batch with next(). A worker that joins, and a "
    "job that goes on, begin a count of the script's own again: write `while run.steps < total:`, or loop "
    "over run.batches()"
)

#: Times that a script may ask for batches after the last step; a loop over epochs may do so.
MOST_ASKED = 1000
NO_END = (
    "The job's steps are done, and the script asks for batches again and again. A count of the script's own "
    "may have begun again: write `for epoch in run.epochs():` in place of `while`, or leave the loop when "
    "run.should_stop() is true"
)

_LOOPS = (ast.For, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class LoopExit(NamedTuple):
    """Conditions under which a function leaves its loop over batches or epochs, or what its `for` counts."""

    names: tuple[str, ...]  #: locals on which they depend
    function: str
    place: str  #: FILE:LINE of the last condition, or of `next`


def counts_of_next(frame: FrameType) -> LoopExit | None:
    """What the loops of a function count that takes its batches with `next`; None if it takes them otherwise.

    A batch that comes again is counted twice.
    """
    loops = _loops_of(frame)
    if any(map(_goes_through_epochs, loops)):
        return None  # what ends too early is taken up again
    if not loops or not any(_is_next(node, frame.f_lineno) for node in ast.walk(loops[-1])):
        return None
    names = [
        loop.target.id
        for loop in loops
        if isinstance(loop, ast.For)
        and isinstance(loop.target, ast.Name)
        and isinstance(frame.f_locals.get(loop.target.id), int)
    ]
    return LoopExit(tuple(names), frame.f_code.co_name, place_of(frame)) if names else None


def loop_exits(frames: Iterable[FrameType], own: Collection[str]) -> list[LoopExit]:
    """Return where these functions leave their loops by values that go on from round to round.

    Args:
        own: values of a worker's own part of the batch, by names as `fit().reward`.
    """
    found = [_exit_of(frame, own) for frame in frames if frame.f_code.co_name != "<module>"]
    return [one for one in found if one is not None]


def _exit_of(frame: FrameType, own: Collection[str]) -> LoopExit | None:
    loops, function = _loops_of(frame), frame.f_code.co_name
    if not loops:
        return None
    stores = _stores(loops[0])
    carried = {name for name in stores if f"{function}().{name}" in own and _is_carried(name, stores[name])}
    tests = [guard.test for loop in loops for guard in _guards(loop.body)]
    tests += [loop.test for loop in loops if isinstance(loop, ast.While)]
    guards = {test.lineno: _names_in(test) & carried for test in tests}
    names = sorted(set().union(*guards.values()))
    if not names:
        return None
    line = max(line for line, used in guards.items() if used)
    return LoopExit(tuple(names), function, f"{submitted(frame.f_code.co_filename)}:{line}")


def _goes_through_epochs(loop: ast.For | ast.While) -> bool:
    """Whether it is `for epoch in run.epochs()`, which ends with the job."""
    nodes = ast.walk(loop.iter) if isinstance(loop, ast.For) else ()
    return any(isinstance(node, ast.Attribute) and node.attr == "epochs" for node in nodes)


def _names_in(expression: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


def _is_next(node: ast.AST, line: int) -> bool:
    if not isinstance(node, ast.Call) or not node.lineno <= line <= (node.end_lineno or 0):
        return False
    return isinstance(node.func, ast.Name) and node.func.id == "next"


@cache
def _source_of(path: str) -> ast.Module | None:
    try:
        with open(path, encoding="utf-8") as file:
            return ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return None


def _function_of(frame: FrameType) -> ast.FunctionDef | ast.Module | None:
    """The source of what runs in this frame."""
    code, tree = frame.f_code, _source_of(frame.f_code.co_filename)
    if tree is None or code.co_name == "<module>":
        return tree
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name == code.co_name
        and node.lineno <= frame.f_lineno <= (node.end_lineno or 0)
    ]
    return found[-1] if found else None


def _loops_of(frame: FrameType) -> list[ast.For | ast.While]:
    function = _function_of(frame)
    return [] if function is None else _loops_around(function, frame.f_lineno)


def _loops_around(function: ast.FunctionDef | ast.Module, line: int) -> list[ast.For | ast.While]:
    """The outermost first."""
    return [
        node
        for node in _own_nodes(function.body)
        if isinstance(node, _LOOPS) and node.lineno <= line <= (node.end_lineno or 0)
    ]


def _own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """What is in these statements, but not in functions that they make."""
    for node in body:
        if not isinstance(node, _FUNCTIONS):
            yield node
            yield from _own_nodes(ast.iter_child_nodes(node))


class _Store(NamedTuple):
    statement: ast.Assign | ast.AugAssign
    is_always: bool  #: in each round


def _stores(loop: ast.For | ast.While) -> dict[str, list[_Store]]:
    found: dict[str, list[_Store]] = {}

    def look(body: Iterable[ast.AST], is_always: bool) -> None:
        for node in body:
            if isinstance(node, _FUNCTIONS):
                continue
            if isinstance(node, ast.Assign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    for part in ast.walk(target):
                        if isinstance(part, ast.Name):
                            found.setdefault(part.id, []).append(_Store(node, is_always))
            look(ast.iter_child_nodes(node), is_always and not isinstance(node, ast.If | ast.Try | ast.IfExp))

    look(loop.body, True)
    return found


def _is_carried(name: str, stores: list[_Store]) -> bool:
    """Whether its value goes from round to round."""
    return not any(store.is_always and not _reads(store.statement, name) for store in stores)


def _reads(statement: ast.Assign | ast.AugAssign, name: str) -> bool:
    if isinstance(statement, ast.AugAssign):
        return True
    return name in _names_in(statement.value)


def _guards(body: Iterable[ast.AST], is_inner: bool = False) -> Iterator[ast.If]:
    """Conditions under which the loop with this body is left."""
    for node in body:
        if isinstance(node, _FUNCTIONS):
            continue
        if isinstance(node, ast.If) and _leaves([*node.body, *node.orelse], is_inner):
            yield node
        yield from _guards(ast.iter_child_nodes(node), is_inner or isinstance(node, _LOOPS))


def _leaves(body: Iterable[ast.AST], is_inner: bool) -> bool:
    for node in body:
        if isinstance(node, _FUNCTIONS):
            continue
        if isinstance(node, ast.Return) or (isinstance(node, ast.Break) and not is_inner):
            return True
        if _leaves(ast.iter_child_nodes(node), is_inner or isinstance(node, _LOOPS)):
            return True
    return False
