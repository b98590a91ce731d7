"""The guard's rules: budgets, verdicts, lines of the history, the log it makes, and what it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from benchmarks.guard import __main__ as program
from benchmarks.guard import measurement
from benchmarks.guard.config import parse_config, unexplained
from benchmarks.guard.environments import Environment
from benchmarks.guard.figures import FIGURES, Figure
from benchmarks.guard.measuring import Values, ratios
from benchmarks.guard.verdicts import Row, failures, rows_of

ROOT = Path(__file__).parents[2]
CONFIG = 'baseline = "b"\n[anchors]\ndecisions = "d"\nservice = "s"\n[budgets]\n'
RAISED = '[[raised]]\nfigure = "calls"\nto = 2.0\nreason = "why"\nprice = "what"\n'


def test_the_config_of_this_tree_is_sound() -> None:
    config = parse_config((ROOT / "benchmarks/guard.toml").read_text())
    assert set(config.anchors) == {figure.anchor for figure in FIGURES if figure.anchor}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("cals = 1.0\n", "'cals' is no figure"),
        ("lines = 1.0\n", "'lines' is no figure"),
        (RAISED.replace("why", " "), "needs a reason"),
        (RAISED.replace('price = "what"\n', ""), "price"),
        ("[odd]\n", "odd"),
    ],
)
def test_a_config_that_breaks_a_rule_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        parse_config(CONFIG + text)


@pytest.mark.parametrize(
    ("text", "is_explained"),
    [
        ("calls = 1.5\n", True),
        ("calls = 1.2\n", True),
        ("calls = 2.0\n", False),
        ("calls = 2.0\n" + RAISED, True),
        ("calls = 2.1\n" + RAISED, False),
        ("", False),
    ],
)
def test_a_budget_rises_or_goes_with_a_reason_only(text: str, is_explained: bool) -> None:
    now, before = parse_config(CONFIG + text), parse_config(CONFIG + "calls = 1.5\n")
    assert (unexplained(now, before) == []) == is_explained


def figure(name: str) -> Figure:
    return next(one for one in FIGURES if one.name == name)


@pytest.mark.parametrize(
    ("row", "is_failure"),
    [
        (Row(figure("calls"), 1.0, to_baseline=1.03), False),
        (Row(figure("calls"), 1.0, to_baseline=1.031), True),
        (Row(figure("calls"), 1.0, to_baseline=9.0, is_compared=False), False),
        (Row(figure("calls"), 1.0, to_baseline=0.5, to_anchor=2.0, budget=1.9), True),
        (Row(figure("calls"), 1.0, to_baseline=None), False),
        (Row(figure("step_s"), 1.0, to_baseline=1.05), False),
        (Row(figure("step_s"), 1.0, to_baseline=1.06), True),
        (Row(figure("step_s"), None), True),
        (Row(figure("lines"), 1.0, to_baseline=9.0), False),
    ],
)
def test_what_is_worse_than_it_may_be_fails(row: Row, is_failure: bool) -> None:
    assert bool(failures([row])) == is_failure


@pytest.mark.parametrize(("is_same", "failing"), [(True, "calls, 30 jobs"), (False, "calls a plan")])
def test_where_decisions_differ_calls_a_plan_are_compared(is_same: bool, failing: str) -> None:
    values = {one.name: 1.0 for one in FIGURES}
    rows = rows_of(values, {"calls": 2.0, "calls_a_plan": 2.0}, {}, {}, is_same)
    (wrong,) = failures(rows)
    assert wrong.startswith(failing)


def test_ratios_are_geometric_means_over_pairs_and_bear_a_zero() -> None:
    pairs: list[tuple[Values, Values]] = [
        ({"a": 1.0, "b": 0, "digest": "x"}, {"a": 2.0, "b": 0}),
        ({"a": 8.0, "b": 0}, {"a": 1.0, "b": 0}),
    ]
    assert ratios(pairs) == pytest.approx({"a": 2.0, "b": 1.0})


# ---------------------------------------------------------------- what it runs
@pytest.fixture
def here(tmp_path: Path) -> Environment:
    """This tree with the interpreter of the tests."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    return Environment("here", ROOT, tmp_path)


@pytest.fixture
def trees(here: Environment, tmp_path: Path) -> list[Environment]:
    """Two commits that have classes and nothing else."""
    texts = {"ours+": "class HTTPDoor: pass\nclass DoorKey: pass\n", "theirs": "class Key: pass\n"}
    for name, text in texts.items():
        (tmp_path / name / "src").mkdir(parents=True)
        (tmp_path / name / "src" / "one.py").write_text(text)
    return [Environment(name, tmp_path / name, here.folder) for name in texts]


def test_a_comparison_prints_a_table_and_fails_for_what_it_could_not_measure(
    trees: list[Environment],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    ours, theirs = trees
    monkeypatch.setattr(program, "of_this_tree", lambda: ours)
    monkeypatch.setattr(program, "of_commit", lambda commit: theirs)
    monkeypatch.setattr(program, "PAIRED", {})
    monkeypatch.setattr(program, "unexplained_since", lambda config, base: [])
    monkeypatch.setattr(measurement, "COUNTED", {"decisions": (), "service": (), "": (("size",),)})
    monkeypatch.setattr(measurement, "FOLDER", tmp_path)
    status = program.compare(parse_config(CONFIG), "b", [min(os.sched_getaffinity(0))], num_pairs=1)
    told = capsys.readouterr().out
    assert status == 1
    (classes,) = (line.split() for line in told.splitlines() if "classes of src" in line)
    assert classes == ["classes", "of", "src", "2", "2.000"]
    assert "bench-guard: resize: could not be measured" in told
    assert "no line is added" in told
