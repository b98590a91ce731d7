"""Locals that go on from round to round of a loop, found in its source.

These are counters that only grow, what decides when a function leaves its loop, as in early stopping, and
what a `for` counts that takes its batches with `next`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import NamedTuple

from swell.train.link.code_paths import submitted

#: What to write where `next` finds no batch.
NEXT_EPOCH = "run.batches() gives the batches of one epoch; call it again for those of the next"
NEXT_AT_END = (
    "The job's steps are done, and the script asks for another batch with next(). A worker that joins, and a "
    "job that goes on, begin a count of the script's own again: begin it at run.steps, as in "
    "`for step in range(run.steps, total)`, or loop over run.batches()"
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
    """Conditions under which a function leaves its loop over batches or epochs."""

    names: tuple[str, ...]  #: locals on which they depend and that go on from round to round
    function: str
    place: str  #: FILE:LINE of the last one


def loop_exits(frames: Iterable[FrameType]) -> list[LoopExit]:
    """The ends of the loops in which these functions stand.

    Left out are flags, and counters that only grow, whose effect can be tried. A counter of batches is not
    left out where a `while` runs until it has come far enough: begun again, it never does.
    """
    frames = list(frames)
    has_end = any(_goes_through_epochs(loop) for frame in frames for loop in _loops_of(frame))
    found = [_exit_of(frame, has_end) for frame in frames if frame.f_code.co_name != "<module>"]
    return [one for one in found if one is not None]


def counts_of_next(frame: FrameType) -> dict[str, int]:
    """What the loops count in which batches are taken with `next`; empty if they are taken otherwise."""
    body = _function_of(frame)
    loops = [] if body is None else _loops_around(body, frame.f_lineno)
    if not loops or not any(_is_next(node, frame.f_lineno) for node in ast.walk(loops[-1])):
        return {}
    names = [
        loop.target.id for loop in loops if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name)
    ]
    values = {name: frame.f_locals.get(name) for name in names}
    return {name: value for name, value in values.items() if isinstance(value, int)}


def growing_counters(frames: Iterable[FrameType]) -> set[str]:
    """Locals that these functions only add to in their loops, by names as `fit().counter`."""
    found = set()
    for frame in frames:
        loops = _loops_of(frame)
        for name, stores in _stores(loops[0]).items() if loops else ():
            if all(_reads(store.statement, name) for store in stores):
                found.add(f"{frame.f_code.co_name}().{name}")
    return found


def _exit_of(frame: FrameType, has_end: bool) -> LoopExit | None:
    loops = _loops_of(frame)
    if not loops:
        return None
    carried = {
        name
        for name, stores in _stores(loops[0]).items()
        if _is_carried(name, stores) and _is_number(frame.f_locals.get(name))
    }
    tests = [guard.test for loop in loops for guard in _guards(loop.body)]
    if not has_end and isinstance(loops[0], ast.While) and not _has_call(loops[0].test):
        tests.append(loops[0].test)
        carried |= _counters_of_batches(loops)
    guards = {test.lineno: _names_in(test) & carried for test in tests}
    names = sorted(set().union(*guards.values()))
    if not names:
        return None
    line = max(line for line, used in guards.items() if used)
    return LoopExit(tuple(names), frame.f_code.co_name, f"{submitted(frame.f_code.co_filename)}:{line}")


def _counters_of_batches(loops: list[ast.For | ast.While]) -> set[str]:
    """What grows in the innermost of these loops, and changes nowhere else in them."""
    inner = _stores(loops[-1])
    return {
        name
        for name, stores in _stores(loops[0]).items()
        if len(stores) == len(inner.get(name, ())) and all(_reads(store.statement, name) for store in stores)
    }


def _goes_through_epochs(loop: ast.For | ast.While) -> bool:
    """Whether it is `for epoch in run.epochs()`, which ends with the job."""
    nodes = ast.walk(loop.iter) if isinstance(loop, ast.For) else ()
    return any(isinstance(node, ast.Attribute) and node.attr == "epochs" for node in nodes)


def _has_call(expression: ast.AST) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(expression))


def _names_in(expression: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


def _is_next(node: ast.AST, line: int) -> bool:
    if not isinstance(node, ast.Call) or not node.lineno <= line <= (node.end_lineno or 0):
        return False
    return isinstance(node.func, ast.Name) and node.func.id == "next"


def _function_of(frame: FrameType) -> ast.FunctionDef | ast.Module | None:
    """The source of what runs in this frame."""
    code = frame.f_code
    try:
        with open(code.co_filename, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return None
    if code.co_name == "<module>":
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
    """Whether its value goes from round to round, and is no counter that only grows."""
    if all(isinstance(store.statement, ast.AugAssign) for store in stores):
        return False
    return not any(store.is_always and not _reads(store.statement, name) for store in stores)


def _reads(statement: ast.Assign | ast.AugAssign, name: str) -> bool:
    if isinstance(statement, ast.AugAssign):
        return True
    return name in _names_in(statement.value)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


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
