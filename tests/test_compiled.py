"""Which code runs: plain Python where there is little to do, machine code where there is much."""

from __future__ import annotations

import numpy as np
import pytest

from swell import compiled
from swell.compiled import NUM_ROWS_WORTH_IT, compile_always, suited


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
