"""Which code runs: plain Python where there is little to do, machine code where there is much."""

from __future__ import annotations

import importlib
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

from swell import compiled
from swell.api.loop_cache import note_compiled
from swell.api.loop_compiler import LoopCompiler, compile_loops, read_loops
from swell.compiled import NUM_ROWS_WORTH_IT, compile_always, suited


@pytest.fixture(autouse=True)
def not_deferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that another test of this process has begun defers compiling for the life of the process."""
    monkeypatch.setattr(compiled, "_is_deferred", False)


def double(numbers: np.ndarray) -> None:
    for row in range(len(numbers)):
        numbers[row] *= 2.0


def test_many_rows_are_compiled_and_few_are_not_unless_there_will_be_many_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiled, "_always", False)
    assert suited(double, NUM_ROWS_WORTH_IT - 1) is double
    machine_code = suited(double, NUM_ROWS_WORTH_IT)
    assert machine_code is not double
    compile_always()
    assert suited(double, 1) is machine_code
    numbers = np.arange(5.0)
    machine_code(numbers)
    assert numbers.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


FIRST = """
from swell.compiled import part

STEP = {step}


@part
def one_more(number: float) -> float:
    return number + {more}
"""
SECOND = """
import numpy as np
from first import STEP, one_more


def total(numbers: np.ndarray) -> float:
    total = 0.0
    for number in numbers:
        total += STEP * one_more(number)
    return total
"""


def test_a_part_may_lie_in_another_file_and_machine_code_on_disk_is_of_the_present_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A start finds only what the files say that there are now, in the part and in the numbers alike."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "second.py").write_text(SECOND)
    names, found = set(), []
    for step, more in ((1, 1), (1, 2), (3, 2), (1, 1)):
        (tmp_path / "first.py").write_text(FIRST.format(step=step, more=more))
        for module in ("first", "second"):
            sys.modules.pop(module, None)
        importlib.invalidate_caches()
        compiled._crc.cache_clear()  # as in a new process
        machine_code = compiled.compiled(importlib.import_module("second").total)
        names.add(machine_code.__qualname__)
        found.append(machine_code(np.arange(3.0)))
    assert found == [6.0, 9.0, 27.0, 6.0]
    assert len(names) == 3


def test_while_it_is_deferred_only_a_thread_that_compiles_has_machine_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiled, "_always", False)
    compiled.defer(True)
    try:
        assert suited(double, NUM_ROWS_WORTH_IT) is double
        with compiled.compiling(), ThreadPoolExecutor(1) as other:
            machine_code = suited(double, 1)
            assert machine_code is not double
            assert other.submit(suited, double, NUM_ROWS_WORTH_IT).result() is double
        assert suited(double, 1) is double
    finally:
        compiled.defer(False)
    assert suited(double, NUM_ROWS_WORTH_IT) is machine_code


def test_a_crowd_calls_every_loop_of_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out of it would be compiled in a live turn, which stops for as long."""
    called: set[str] = set()

    def note(kernel: FunctionType) -> FunctionType:
        called.add(kernel.__name__)
        return kernel

    monkeypatch.setattr(compiled, "compiled", note)
    compile_loops("elasticflow")
    assert called >= {
        "_advance", "_expect", "_list_codes", "_list_held", "_list_prices", "_list_useful",
        "_look_up", "_pack", "_next_step_s", "_save", "_schedule", "_settle", "fill_in_order",
    }  # fmt: skip


def test_the_loops_of_a_platform_become_machine_code_between_two_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiled, "_always", False)
    loops = LoopCompiler("fifo")
    try:
        assert suited(double, NUM_ROWS_WORTH_IT) is double
        assert_goes_on(loops)
        assert suited(double, NUM_ROWS_WORTH_IT) is not double
    finally:
        loops.stop()
        compiled.defer(False)


def test_what_an_earlier_platform_compiled_is_read_before_the_first_turn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compiled, "_always", False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fresh, crowded = LoopCompiler("fifo"), LoopCompiler("fifo")
    try:
        fresh.begin(10_000)
        assert suited(double, NUM_ROWS_WORTH_IT) is double, "nothing says that it is on disk"
        note_compiled("fifo")
        crowded.begin(NUM_ROWS_WORTH_IT - 1)
        assert suited(double, NUM_ROWS_WORTH_IT) is double, "it is not worth it"
        crowded.begin(NUM_ROWS_WORTH_IT)
        assert suited(double, NUM_ROWS_WORTH_IT) is not double
        crowded.go_on()
        assert crowded.process is None
    finally:
        compiled.defer(False)


def test_at_each_step_one_more_loop_becomes_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_always", False)
    monkeypatch.setattr(compiled, "_ready", set())
    counts = [len(compiled._ready) for _ in read_loops("fifo")]
    assert counts == sorted(counts) and max(np.diff(counts)) == 1
    assert counts[-1] == len(compiled._ready) > 5


def test_a_compiler_that_fails_leaves_plain_python_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiled, "_always", False)
    loops = LoopCompiler("no_such_policy")
    try:
        assert_goes_on(loops)
        assert suited(double, NUM_ROWS_WORTH_IT) is double
        assert "compiling ended with status 1; the head stays plain Python" in caplog.text
    finally:
        loops.stop()
        compiled.defer(False)


def assert_goes_on(loops: LoopCompiler) -> None:
    """Turns of the head, the last of them after the compiler has ended."""
    loops.go_on()
    assert loops.process is not None
    loops.process.wait(60.0)
    for _ in range(1000):
        loops.go_on()
