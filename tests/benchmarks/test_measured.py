"""What the benchmark of solvers says of HiGHS where its time limit has ended it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("scipy")

from benchmarks.solvers.measured import Rival, Row
from tests.solvers.highs import Answer
from tests.solvers.horizons import PaperModel


def cells(*answers: Answer) -> tuple[str, ...]:
    """Median, most, times ours and answers of a rival that took 100 ms, then 200 ms and so on."""
    rival = Rival("HiGHS", answers, tuple(100.0 * number for number, _ in enumerate(answers, 1)))
    row = Row("a problem", "a size", "kernel", (1.0,) * 3, values=(4.0,) * 3, proof="3 proven", rival=rival)
    return row.cells()[-4:]


def test_times_of_a_rival_at_the_limit_are_lower_bounds() -> None:
    done, late, without = Answer(4.0), Answer(3.0, is_at_limit=True), Answer(-np.inf, is_at_limit=True)
    same = "3 proven; others worse by 0.00%"
    worse = "3 proven; others worse by 0.00% to 25.00%"
    assert cells(done, done, done) == ("200", "300", "200", same)
    assert cells(done, done, late) == ("200", "> 300", "200", f"{worse}; 1 of 3 at the limit")
    assert cells(late, done, done) == ("> 200", "> 300", "> 200", f"{worse}; 1 of 3 at the limit")
    assert cells(done, late, late) == ("> 200", "> 300", "> 200", f"{worse}; 2 of 3 at the limit")
    assert cells(without) == ("> 100", "> 100", "> 100", "3 proven; 1 of 1 at the limit; no answer to 1 of 1")
    assert cells() == ("", "", "", "3 proven")


def test_a_solver_that_has_no_time_has_no_answer() -> None:
    model = PaperModel(np.full(20, 60.0), (0, 1, 2, 4), 30, 5, 5.0, least=0)
    assert model.solve(limit_s=0.0) == (-np.inf, True)
