"""The paper's model of BFTrainer by HiGHS, beside the exact solver, on two small sizes."""

from __future__ import annotations

import pytest

pytest.importorskip("scipy")

from benchmarks.solvers import trainers


def test_highs_and_the_exact_solver_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainers, "SIZES", ((2, 6), (3, 8)))
    monkeypatch.setattr(trainers, "_turns_ms", lambda num_jobs, num_nodes: [1.0])
    rows = list(trainers.bftrainer_rows(num_instances=2, num_rival=1, limit_s=30.0))
    solved = [row for row in rows if row.rival.answers]
    assert [row.size for row in solved] == ["J=2 N=6", "J=3 N=8"]
    for row in solved:
        assert row.rival.name == "HiGHS, paper's model, gap 0.0001"
        (answer,) = row.rival.answers
        assert answer.value == pytest.approx(row.values[0], rel=1e-3) and not answer.is_at_limit
