"""The library of compiled loops: all are in it, for the types they are called with, and change nothing."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, cast

import numpy as np
import pytest
from benchmarks.crowd import Mix
from benchmarks.decisions import Trial

import swell
from swell import compiled
from swell.loops import calls as crowds
from swell.loops.calls import Calls, calls_of_all_loops
from swell.loops.entry import entry_of
from swell.policies.registry import POLICIES

pytestmark = pytest.mark.slow

PACKAGE = Path(swell.__file__).parent
WHY_NOT = "the loops were not built, or their source has changed since: python -m swell.loops"


@pytest.fixture(scope="module")
def calls() -> Calls:
    """Seven seconds: every policy leads a crowd of jobs in plain Python."""
    return calls_of_all_loops()


def test_each_loop_of_the_source_can_be_built(calls: Calls) -> None:
    """One that no policy leads to here would stay plain Python wherever Swell is installed."""
    assert {kernel.__name__ for kernel in calls} >= set(_names_of_loops())
    for kernel, arguments in calls.items():
        assert entry_of(kernel, arguments).arguments


def test_no_loop_chooses_one_of_two_named_tuples(calls: Calls) -> None:
    """Compiled by numba where they were not built, these need one type, and a read-only column is another.

    To compile all loops so takes minutes; the columns of built loops all have one type.
    """
    kernels = cast(set[FunctionType], {*calls, *compiled._parts})
    for kernel in (
        kernel for kernel in kernels if kernel.__module__.startswith("swell.")
    ):  # not other tests'
        for choice in ast.walk(ast.parse(inspect.getsource(kernel))):
            if isinstance(choice, ast.IfExp):
                told = {node.id for node in (choice.body, choice.orelse) if isinstance(node, ast.Name)}
                for name in told & kernel.__annotations__.keys():
                    kind = kernel.__globals__.get(kernel.__annotations__[name])
                    assert not hasattr(kind, "_fields"), f"{kernel.__qualname__}: {ast.unparse(choice)}"


def _names_of_loops() -> Iterator[str]:
    """First arguments of `suited`; where that is a choice of two loops, both."""
    for file in PACKAGE.rglob("*.py"):
        if "suited(" not in (text := file.read_text(encoding="utf-8")):
            continue
        tree = ast.parse(text)
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "suited":
                loop = node.args[0]
                assert isinstance(loop, ast.Name), f"{file}:{node.lineno}"
                if loop.id in functions | imported:
                    yield loop.id
                else:
                    yield from _chosen(tree, loop.id)


def _chosen(tree: ast.AST, variable: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == variable for target in node.targets
        ):
            assert isinstance(node.value, ast.IfExp), f"{variable} is neither a loop nor a choice of two"
            for choice in (node.value.body, node.value.orelse):
                assert isinstance(choice, ast.Name)
                yield choice.id


@pytest.mark.parametrize("policy", ["elasticflow", "hu", "bftrainer", "pollux", "edf_admission"])
def test_a_loop_is_called_with_the_same_types_each_time(policy: str) -> None:
    """With others it would be left to plain Python."""
    types: dict[str, set[str]] = defaultdict(set)

    def note(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: object) -> Any:
            types[kernel.__qualname__].add(entry_of(kernel, arguments).arguments)
            return kernel(*arguments)

        return run

    with compiled.replaced(note):
        crowds.lead_crowd(policy)
    assert types and {name: them for name, them in types.items() if len(them) > 1} == {}


def test_a_built_loop_does_what_plain_python_does(calls: Calls) -> None:
    if not all(compiled.is_built(kernel) for kernel in calls):
        pytest.skip(WHY_NOT)
    for kernel, arguments in calls.items():
        built = compiled.library.find(compiled.name_of(kernel), _refuse)
        ours, theirs = _copy(arguments), _copy(arguments)
        assert built(*ours) == kernel(*theirs), kernel
        assert _is_same(ours, theirs), kernel


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_crowd_is_led_by_built_loops_alone(policy: str) -> None:
    @cache
    def find(kernel: Callable[..., Any]) -> Any:
        if (built := compiled.library.find(compiled.name_of(kernel), _refuse)) is None:
            pytest.skip(WHY_NOT)
        return built

    if compiled.library is None:
        pytest.skip(WHY_NOT)
    with compiled.replaced(find):
        crowds.lead_crowd(policy)


@pytest.mark.parametrize("policy", ["elasticflow", "chronus", "hu", "bftrainer", "pollux", "saxena"])
def test_over_a_crowd_of_hundreds_no_loop_is_plain_python(
    policy: str, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column of another type, or one that is not contiguous, leads there, and nothing but time tells.

    Small crowds do not show all columns: those of many jobs are cut, sorted and kept in other ways.
    """
    if not all(compiled.is_built(kernel) for kernel in calls):
        pytest.skip(WHY_NOT)
    compiled.compile_never()
    loops = {cast(FunctionType, kernel).__code__ for kernel in calls}
    plain: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in loops:
            plain[frame.f_code.co_qualname] += 1

    monkeypatch.setattr(compiled, "_machine_code", {})
    with compiled.from_rows(0):
        trial = Trial(300, 1024, Mix(strict_share=0.5, soft_share=0.2), seed=0, policy=policy)
        sys.setprofile(note)
        try:
            trial.gather()
            trial.run(40)
        finally:
            sys.setprofile(None)
    assert trial.turns["arrival"].total_ms and trial.turns["completion"].total_ms
    assert plain == {}


def _refuse(*arguments: object) -> None:
    raise AssertionError("a built loop was called with types that it was not built for")


def _copy(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, tuple):
        columns = (_copy(column) for column in value)
        return type(value)._make(columns) if hasattr(value, "_make") else tuple(columns)
    return value


def _is_same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, np.ndarray):
        return np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f")
    if isinstance(ours, tuple):
        return all(map(_is_same, ours, theirs))
    return bool(ours == theirs)


TINY = """
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.compiled import part


class Pair(NamedTuple):
    ints: object
    table: object


@part
def half(number: float) -> float:
    return number / 2


def add(pair: Pair, factor: float, is_doubled: bool, ends: tuple) -> tuple[int, float, bool]:
    room = np.zeros(len(pair.ints))
    total = 0.0
    for row in range(len(pair.ints)):
        room[row] = pair.ints[row] * factor
        for column in range(pair.table.shape[1]):
            pair.table[row, column] += half(room[row])
        total += room[row]
    if total < 0.0:
        raise ValueError("too little")
    return len(pair.ints), factor / (ends[1] - ends[0]), is_doubled
"""
PROGRAM = """
import importlib.machinery, importlib.util, sys
from pathlib import Path

import numpy as np
import tiny

from swell.compiled import name_of
from swell.loops.library import build


def arguments(kind=np.int64, least=1):
    pair = tiny.Pair(np.arange(least, least + 3, dtype=kind), np.zeros((3, 2)))
    return pair, 2.0, True, (1, 3)


def outcome(add, *given):
    try:
        return add(*given), given[0].table.tolist()
    except Exception as error:
        return type(error), given[0].table.tolist()


path = Path(sys.argv[1])
build({tiny.add: arguments()}, path)
loader = importlib.machinery.ExtensionFileLoader("_loops", str(path))
library = importlib.util.module_from_spec(importlib.util.spec_from_loader("_loops", loader))
plain = []
built = library.find(name_of(tiny.add), lambda *given: plain.append(given) or tiny.add(*given))
assert library.find("another", tiny.add) is None
for given in (
    arguments,
    lambda: (arguments()[0], 2, np.bool_(False), (np.int64(1), 3)),
    lambda: arguments(least=-9),
    lambda: (*arguments()[:3], (3, 3)),
):
    ours, theirs = outcome(built, *given()), outcome(tiny.add, *given())
    assert ours == theirs, (ours, theirs)
try:
    built(*arguments(least=-9))
except ValueError as error:
    assert error.args == ("too little",)
assert outcome(built, *arguments()[:3], (3, 3))[0] is ZeroDivisionError
assert not plain
turned = arguments()[0]._replace(table=np.zeros((2, 3)).T)
for given in (arguments(np.int32), (*arguments()[:3], (1, 3.0)), (turned, 2.0, True, (1, 3))):
    assert outcome(built, *given)[0] == (3, 1.0, True)
assert len(plain) == 3
try:
    built(*arguments(), 1)
except TypeError:
    print("as it should be")
"""


def test_building_a_library(tmp_path: Path) -> None:
    """Ten seconds in a process of its own, where numba makes code for any processor from then on.

    Results, errors and columns are those of plain Python, which has what has other types or another layout.
    """
    (tmp_path / "tiny.py").write_text(TINY)
    (tmp_path / "program.py").write_text(PROGRAM)
    program = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "_loops.abi3.so")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=110)
    assert done.stdout.strip() == "as it should be", done.stderr
