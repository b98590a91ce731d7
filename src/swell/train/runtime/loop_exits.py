"""What of a worker's own part of the batch decides when a loop ends, found in the loop's source.

No short run shows it. Without this `tests/scripts/differs/ends_by_running_reward.py` goes wrong in silence.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from types import FrameType

from swell.script_facts import ScriptFinding
from swell.train.link.code_paths import submitted
from swell.train.runtime.step_comparison import listed
from swell.train.state.script_values import attributes_of

#: Times that a script may ask for batches after the last step; a loop over epochs may do so.
MOST_ASKED = 1000
NO_END = (
    "The job's steps are done, and the script asks for batches again and again. A count of the script's own "
    "may have begun again: write `for epoch in run.epochs():` in place of `while`, or leave the loop when "
    "run.should_stop() is true"
)

_Loop = ast.For | ast.While
_EXITS = (ast.Break, ast.Return)


def loop_exits(frames: Iterable[FrameType], own: Collection[str]) -> list[ScriptFinding]:
    """Return where these functions leave their loops by values that go on from round to round.

    Args:
        own: values of a worker's own part of the batch, by names as `fit().reward`.
    """
    found = [_exit_of(frame, own) for frame in frames]
    return [one for one in found if one is not None]


def _exit_of(frame: FrameType, own: Collection[str]) -> ScriptFinding | None:
    loops, function = _loops_around(frame), f"{frame.f_code.co_name}()"
    if not loops:
        return None
    scope = frame.f_globals["__name__"] if frame.f_code.co_name == "<module>" else function
    carried = _following(loops[0], set().union(*(_written(name, frame) for name in own)))
    carried -= _set_anew(loops[0])
    tests = [loop.test for loop in loops if isinstance(loop, ast.While)]
    tests += [
        node.test
        for node in _within(loops[0], loops)
        if isinstance(node, ast.If) and any(isinstance(part, _EXITS) for part in _within(node, loops))
    ]
    guards = {test.lineno: found for test in tests if (found := _names_in(test) & carried)}
    if not guards:
        return None
    names = listed(sorted(set().union(*guards.values())))
    text = (
        f"{names} in {function if scope == function else 'the script'} changes with the samples of each "
        "worker's own part of the batch, and decides when the loop ends: workers would leave it at different "
        "steps. Decide by what is the same on all workers, as what `run.backward` returns is"
    )
    place = f"{submitted(frame.f_code.co_filename)}:{max(guards)}"
    return ScriptFinding(name="hidden-state", text=text, place=place)


@cache
def _loops_in(path: str) -> list[_Loop]:
    """The loops of a file, by their lines: those around others are before them."""
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return []
    return sorted((node for node in ast.walk(tree) if isinstance(node, _Loop)), key=lambda node: node.lineno)


def _loops_around(frame: FrameType) -> list[_Loop]:
    """The loops in which a function stands, the outermost first."""
    code, line = frame.f_code, frame.f_lineno
    return [
        loop
        for loop in _loops_in(code.co_filename)
        if code.co_firstlineno <= loop.lineno <= line <= (loop.end_lineno or 0)
    ]


def _within(node: ast.AST, loops: Collection[_Loop]) -> Iterator[ast.AST]:
    """Yield what stands in a statement, but for what stands in loops other than these."""
    for each in ast.iter_child_nodes(node):
        if not isinstance(each, _Loop) or each in loops:
            yield each
            yield from _within(each, loops)


def _written(name: str, frame: FrameType) -> set[str]:
    """How the code of a function may write a variable: `count`, `trainer.count`, `self.count`."""
    scopes = f"{frame.f_code.co_name}().", f"{frame.f_globals['__name__']}."
    key = name.rpartition(".")[2]
    own = {f"self.{key}"} if key in attributes_of(frame.f_locals.get("self")) else set()
    return own | {name.removeprefix(scope) for scope in scopes if name.startswith(scope)}


def _names_in(expression: ast.AST) -> set[str]:
    """Variables as `_written` has them, but for those from which `run.backward` makes a mean."""
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
        if expression.func.attr == "backward":
            return set()
        parts: list[ast.AST] = [expression.func.value, *expression.args, *expression.keywords]
        return set().union(*map(_names_in, parts))
    own = {expression.id} if isinstance(expression, ast.Name) else set()
    own |= {ast.unparse(expression)} if isinstance(expression, ast.Attribute) else set()
    return own.union(*map(_names_in, ast.iter_child_nodes(expression)))


def _following(loop: _Loop, names: set[str]) -> set[str]:
    """Return these variables, and those that a loop sets from them or where they say so."""
    found, before = names, set[str]()
    while found != before:
        before = found
        for node in ast.walk(loop):
            value = node.value if isinstance(node, ast.Assign | ast.AugAssign) else None
            value = node.test if isinstance(node, ast.If) else value
            if value is not None and _names_in(value) & found:
                found = found | set().union(*map(_targets_of, ast.walk(node)))
    return found


def _targets_of(node: ast.AST) -> set[str]:
    """Return what a statement sets, as `_written` has it."""
    if not isinstance(node, ast.Assign | ast.AugAssign):
        return set()
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    parts = [part for each in targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
    return {ast.unparse(part) for part in parts if isinstance(part, ast.Name | ast.Attribute)}


def _set_anew(loop: _Loop) -> set[str]:
    """Return what each round of a loop, or of one within it, sets without reading it."""
    names: set[str] = set()
    for node in _always(loop.body):
        if isinstance(node, ast.Assign):
            names |= _targets_of(node) - _names_in(node.value)
    return names


def _always(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements that are made in each round."""
    for node in body:
        yield node
        if isinstance(node, ast.With | _Loop):
            yield from _always(node.body)
