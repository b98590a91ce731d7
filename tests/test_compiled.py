"""Which code runs: plain Python where there is little to do, machine code where there is much."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from swell import compiled
from swell.compiled import NUM_ROWS_WORTH_IT, compile_always, compile_never, suited


def double(numbers: np.ndarray) -> None:
    for row in range(len(numbers)):
        numbers[row] *= 2.0


class Library:
    """Has one loop, `double`."""

    def find(self, name: str, plain: Callable[..., object]) -> Callable[..., object] | None:
        return fast_double if name == compiled.name_of(double) else None


def fast_double(numbers: np.ndarray) -> None:
    numbers *= 2.0


@pytest.fixture(autouse=True)
def nothing_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test finds machine code by itself."""
    monkeypatch.setattr(compiled, "_machine_code", {})
    monkeypatch.setattr(compiled, "library", None)


@pytest.mark.slow
def test_many_rows_are_compiled_and_few_are_not_unless_there_will_be_many_calls() -> None:
    assert suited(double, NUM_ROWS_WORTH_IT - 1) is double
    machine_code = suited(double, NUM_ROWS_WORTH_IT)
    assert machine_code is not double
    compile_always()
    assert suited(double, 1) is machine_code
    numbers = np.arange(5.0)
    machine_code(numbers)
    assert numbers.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_what_was_built_runs_whatever_the_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "library", Library())
    monkeypatch.setattr(compiled, "_least_rows", 0)
    assert suited(double, 1) is fast_double
    assert suited(one_more, NUM_ROWS_WORTH_IT - 1) is one_more, "it was not built, and is not worth compiling"


def test_a_process_that_must_not_wait_runs_what_was_built_or_plain_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiled, "library", Library())
    compile_never()
    compile_always()
    assert suited(double, 10**6) is fast_double
    assert suited(one_more, 10**6) is one_more


def one_more(number: float) -> float:
    return number + 1


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


@pytest.mark.slow
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


BOTH_WAYS = """
import sys

import numpy as np

from swell import compiled

compiled.library = None
from first import one_more
from second import total

if sys.argv[1] == "alone first":
    print(compiled.compiled(one_more)(1.0), compiled.compiled(total)(np.arange(3.0)))
else:
    print(compiled.compiled(total)(np.arange(3.0)), compiled.compiled(one_more)(1.0))
"""


@pytest.mark.slow
def test_a_loop_alone_and_as_a_part_of_another_stay_apart_on_disk(tmp_path: Path) -> None:
    """The part is kept without what Python needs to call it: to take one for the other ends a process."""
    (tmp_path / "first.py").write_text(FIRST.format(step=1, more=1))
    (tmp_path / "second.py").write_text(SECOND)
    (tmp_path / "program.py").write_text(BOTH_WAYS)

    def told(order: str) -> str:
        program = [sys.executable, str(tmp_path / "program.py"), order]
        return subprocess.run(program, check=True, capture_output=True, text=True).stdout.strip()

    assert told("part first") == "6.0 2.0"
    assert told("alone first") == "2.0 6.0"
