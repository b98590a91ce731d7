"""The first screen of the page of ElasticFlow's evaluation."""

from __future__ import annotations

import pytest

from swell_papers.elasticflow_summary import summary_of
from swell_papers.findings import Cell, Column, Findings, Table
from swell_papers.measures import MAKESPAN, SATISFACTION

NAMES = ("case", "policy", "paper", "strict", "changed", "late")


def findings(name: str, *rows: tuple[Cell, ...], title: str = SATISFACTION.label) -> Findings:
    table = Table(name=name, title=title, columns=tuple(map(Column, NAMES)), rows=rows)
    return Findings(name=name, title=name, truth=(), tables=(table,), charts=(), notes=())


def summary(*all_findings: Findings) -> tuple[list[tuple[Cell, ...]], str]:
    found = summary_of(all_findings, baselines=("edf", "themis"), beside=("equal_share",))
    return list(found.tables[0].rows), "\n".join(found.notes)


def test_few_cases_have_a_line_each_and_many_their_mean() -> None:
    few = findings(
        "9",
        ("64", "edf", 0.1, None, 0.2, 5),
        ("64", "themis", 0.1, None, 0.3, 5),
        ("64", "elasticflow", 0.7, 0.6, 0.8, 0),
        ("128", "elasticflow", None, None, 0.9, 0),
    )
    many = findings(
        "11",
        *((f"{case}", "elasticflow", 0.5, None, 0.1 * case, 0) for case in range(4)),
        *((f"{case}", "equal_share", None, None, 0.2, 3) for case in range(3)),
    )
    rows, text = summary(few, findings("12", title=MAKESPAN.label), many)
    assert rows[0] == ("9", "64", 0.7, 0.6, 0.8, 0, "themis", 0.3, None)
    assert rows[1][:5] == ("9", "128", None, None, 0.9)
    assert rows[2][:2] == ("11", "mean of 4")
    assert rows[2][4] == pytest.approx(0.15)
    assert rows[2][-1] is None, "it was not run in each case"
    assert "meets 0.600 of the deadlines there and 0.475 here" in text
    assert "It breaks no promise in any of them." in text
    assert "No baseline of the paper meets more deadlines than it in any line." in text


def test_who_is_ahead_and_what_is_broken_is_told_by_name() -> None:
    _, text = summary(
        findings(
            "8b",
            ("1", "elasticflow", 0.7, None, 0.8, 2),
            ("1", "equal_share", None, None, 0.9, 9),
            ("1", "edf", 0.1, None, 0.804, 9),
            ("2", "elasticflow", 0.7, None, 0.8, 0),
            ("2", "edf", 0.1, None, 0.81, 9),
        )
    )
    assert "It breaks promises on 8b 1." in text
    assert "A baseline of the paper meets more deadlines than it on 8b 2 (edf)." in text
    assert "Of the others these meet more: equal_share on 8b 1." in text


def test_five_sentences() -> None:
    _, text = summary(findings("8b", ("1", "elasticflow", 0.7, None, 0.8, 0)))
    assert text.count("\n") == 4
