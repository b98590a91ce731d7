"""The verdict of a self-test, for any figures."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.measure import report as r

CHECKS = [check for check in vars(r).values() if isinstance(check, r.Check)]
FIGURES = st.floats(1e-12, 1e12)


@given(st.sampled_from(CHECKS), FIGURES, FIGURES, FIGURES, st.booleans())
def test_better_figures_are_never_judged_worse(
    check: r.Check, one: float, other: float, plain: float, is_gpu: bool
) -> None:
    worse, better = (min, max) if check.unit == r.GB_PER_S else (max, min)
    judged = [
        r.row_of(check, pick(one, other), "", "", is_gpu=is_gpu, plain=plain) for pick in (worse, better)
    ]
    assert [row.verdict for row in judged] != [r.CheckVerdict.OK, judged[1].verdict] or judged[
        1
    ].verdict == "ok"
    limit = judged[0].normal
    assert limit is not None
    on_limit = r.row_of(check, limit, "", "", is_gpu=is_gpu, plain=plain)
    assert on_limit.verdict is r.CheckVerdict.OK
    beyond = limit * (0.99 if check.unit == r.GB_PER_S else 1.01)
    assert r.row_of(check, beyond, "", "", is_gpu=is_gpu, plain=plain).verdict is not r.CheckVerdict.OK


@pytest.mark.parametrize("check", CHECKS)
def test_what_is_no_number_is_never_right(check: r.Check) -> None:
    """As the weights of a job that has diverged."""
    assert r.row_of(check, math.nan, "", "", is_gpu=False, plain=1.0).verdict is not r.CheckVerdict.OK


def test_other_weights_are_wrong_and_not_slow() -> None:
    assert r.row_of(r.EQUAL, 1e-6, "growth", is_gpu=True).verdict is r.CheckVerdict.WRONG
    assert r.row_of(r.KILL, 9.0, "2 workers", is_gpu=True).verdict is r.CheckVerdict.SLOW


@given(st.lists(st.sampled_from(r.CheckVerdict), max_size=6))
def test_the_report_is_good_if_each_of_its_rows_is(verdicts: list[r.CheckVerdict]) -> None:
    rows = tuple(r.Row(what=f"part {place}", verdict=verdict) for place, verdict in enumerate(verdicts))
    report = r.Report(swell="", torch="", python="", kind="cpu", num_devices=2, num_cores=2, rows=rows)
    bad = [row for row in rows if row.verdict is not r.CheckVerdict.OK]
    assert report.is_good == (bool(rows) and not bad)
    assert report.verdict.startswith("OK: ") == report.is_good
    assert "\n" not in report.verdict
    assert all(f"{row.what}: {row.verdict}" in report.verdict for row in bad)
