"""Figure 2 of Saxena et al.: what is trained, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell_papers import saxena_accuracy
from swell_papers.experiment import Context
from swell_papers.findings import Findings
from swell_papers.findings_store import write
from swell_papers.saxena_accuracy import (
    BASE,
    LEAST,
    MOST,
    RULES,
    AccuracyResult,
    accuracy_study,
    patterns,
    trained,
)

CONTEXT = Context(data=Path())


@given(st.integers(4, 60), st.integers(0, 50))
def test_batches_stay_within_the_range_and_some_change(num_epochs: int, seed: int) -> None:
    found = patterns(num_epochs, seed)
    for name, batches in found.items():
        assert len(batches) == num_epochs and all(LEAST <= batch <= MOST for batch in batches)
        assert (len(set(batches)) == 1) == name.startswith("fixed")
    assert found["rising"] == tuple(sorted(found["rising"])) == found["falling"][::-1]
    assert patterns(num_epochs, seed) == found


Final = Callable[[Sequence[int], str, int], float]


def found_of(final: Final, monkeypatch: pytest.MonkeyPatch, context: Context = CONTEXT) -> Findings:
    """What is found where runs end with these accuracies."""

    def pretended(batches: Sequence[int], rule: str, seed: int) -> AccuracyResult:
        return AccuracyResult(final(batches, rule, seed), len(batches))

    monkeypatch.setattr(saxena_accuracy, "trained", pretended)
    return accuracy_study(num_epochs=8, num_seeds=3).run(context)


def test_a_rule_under_which_the_accuracy_falls_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patterns that change are judged beside the fixed batch, and each rule is one line."""

    def final(batches: Sequence[int], rule: str, seed: int) -> float:
        is_changing = len(set(batches)) > 1
        return 0.9 + 0.001 * seed - (0.02 if rule == "linear" and is_changing else 0.0)

    found = found_of(final, monkeypatch)
    rows, claims = (part.rows for part in found.tables)
    assert len(rows) == 1 + 5 * len(RULES)
    assert rows[0][:2] == (f"fixed, {BASE}", "-") and rows[0][3] == pytest.approx(90.1)
    assert len(claims) == 3 * len(RULES)
    for text, figure, ours, _, comes_out in claims:
        is_odd = "learning rate linear" in str(text)
        assert (figure, ours) == pytest.approx((90.1, 88.1 if is_odd else 90.1))
        assert comes_out == ("no" if is_odd else "yes")
    assert [len(lines) for lines in found.charts[0].panels.values()] == [1 + len(RULES)]
    names = {file.name for file in write(found, tmp_path)}
    assert {"fig2.json", "fig2.csv", "fig2-claims.csv", "fig2.png"} <= names


@pytest.mark.slow
def test_a_real_model_learns_under_each_rule() -> None:
    rules = [*RULES.values(), *list(RULES.values())[:1]]
    results = [trained((BASE, MOST, LEAST), rule, 1) for rule in rules]
    assert all(result.accuracy > 0.6 for result in results)
    assert len({result.updates for result in results}) == 1
    assert results[-1] == results[0], "a seed decides all"
    assert len({result.accuracy for result in results}) > 1
