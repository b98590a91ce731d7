"""Locals that go on from round to round of a loop, found in its source.

These are counters that only grow, what decides when a function leaves its loop, as in early stopping, the
best result so far by which a model is kept, and what a `for` counts that takes its batches with `next`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
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
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
#: Words in the names of functions that keep a model, or change how it goes on.
_KEEPING = frozenset(("save", "savez", "deepcopy", "step"))
#: With which names begin of functions that tell what a value is, or of who does.
_TELLING = {
    *(
        "log",
        "logger",
        "logging",
        "print",
        "report",
        "show",
        "tell",
        "write",
        "writer",
        "plot",
        "record",
        "note",
    ),
    *("track", "tracker", "display", "format", "info", "bar", "pbar", "progress", "console", "wandb"),
}
_WORD = re.compile(r"[A-Z]?[a-z]+")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class LoopExit(NamedTuple):
    """Conditions under which a function leaves its loop over batches or epochs, or what its `for` counts."""

    names: tuple[str, ...]  #: locals on which they depend and that go on from round to round
    function: str
    place: str  #: FILE:LINE of the last condition, or of `next`


class BestSoFar(NamedTuple):
    """A local with the best result so far, by which a function keeps a model or changes a learning rate."""

    name: str
    function: str
    place: str  #: FILE:LINE of the condition


def bests_so_far(frames: Iterable[FrameType]) -> list[BestSoFar]:
    """The best results that these functions compare with in their loops and have in locals."""
    found = []
    for frame in frames:
        loops = _loops_of(frame) if frame.f_code.co_name != "<module>" else []
        for line, name in _bests_in(loops[0]) if loops else ():
            if _is_number(frame.f_locals.get(name)):
                place = f"{submitted(frame.f_code.co_filename)}:{line}"
                found.append(BestSoFar(name, frame.f_code.co_name, place))
    return found


def loop_exits(frames: Iterable[FrameType]) -> list[LoopExit]:
    """The ends of the loops in which these functions stand.

    Left out are flags, and counters that only grow, whose effect can be tried. A counter of batches is not
    left out where a `while` runs until it has come far enough: begun again, it never does.
    """
    frames = list(frames)
    has_end = any(_goes_through_epochs(loop) for frame in frames for loop in _loops_of(frame))
    found = [_exit_of(frame, has_end) for frame in frames if frame.f_code.co_name != "<module>"]
    return [one for one in found if one is not None]


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


def _bests_in(loop: ast.For | ast.While) -> Iterator[tuple[int, str]]:
    """Lines of conditions that compare with a best so far, and its name."""
    stores = _stores(loop)
    for node in _own_nodes(loop.body):
        if not isinstance(node, ast.If) or not _keeps([*node.body, *node.orelse]):
            continue
        flags = [store.statement.value for name in _names_in(node.test) for store in stores.get(name, ())]
        for test in [node.test, *(flag for flag in flags if isinstance(flag, ast.Compare))]:
            yield from ((node.lineno, name) for name in _compared(test) if _becomes(test, name, stores))


def _compared(test: ast.expr) -> set[str]:
    """Names that are smaller or larger than something else."""
    orders = [node for node in ast.walk(test) if isinstance(node, ast.Compare) and len(node.ops) == 1]
    sides = [side for node in orders if isinstance(node.ops[0], _ORDERS) for side in _sides(node)]
    return {side.id for side in sides if isinstance(side, ast.Name)}


def _sides(compare: ast.Compare) -> tuple[ast.expr, ast.expr]:
    return compare.left, compare.comparators[0]


def _becomes(test: ast.expr, name: str, stores: dict[str, list[_Store]]) -> bool:
    """Whether this local, which goes on from round to round, is set to what it was compared with."""
    if name not in stores or not _is_carried(name, stores[name]):
        return False
    others = [
        ast.dump(side)
        for node in ast.walk(test)
        if isinstance(node, ast.Compare) and name in _names_in(node)
        for side in _sides(node)
        if name not in _names_in(side) and not isinstance(side, ast.Constant)
    ]
    values = [ast.dump(store.statement.value) for store in stores[name]]
    return any(other in value for other in others for value in values)


def _keeps(body: Iterable[ast.AST]) -> bool:
    """Whether these statements keep a model, or change a rate."""
    for node in _own_nodes(body):
        if isinstance(node, ast.Call):
            names = _parts_of(node.func)
            words = [[word.lower() for word in _WORD.findall(name)] for name in names]
            is_told = any(found[0] in _TELLING for found in words if found)
            if names and ("state_dict" in names[0] or (not is_told and _KEEPING.intersection(words[0]))):
                return True
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult | ast.Div):
            return True
    return False


def _parts_of(function: ast.expr) -> list[str]:
    """The name of a function, and those of what it is an attribute of: `step` and `scheduler`."""
    if isinstance(function, ast.Attribute):
        return [function.attr, *_parts_of(function.value)]
    return [function.id] if isinstance(function, ast.Name) else []


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
