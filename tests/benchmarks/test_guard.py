"""The guard's rules: budgets, verdicts, lines of the history, the log it makes, and what it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.guard import __main__ as program
from benchmarks.guard import measurement
from benchmarks.guard.config import parse_config, unexplained
from benchmarks.guard.environments import Environment, differing
from benchmarks.guard.figures import FIGURES, Figure
from benchmarks.guard.generated_log import generated_log
from benchmarks.guard.history import append, line_of, read_lines
from benchmarks.guard.measurement import LOGS, with_logs
from benchmarks.guard.measuring import HOOK, Values, in_pairs, once, ratios
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


def test_a_line_keeps_ratios_of_pairs_and_values_of_others(tmp_path: Path) -> None:
    file = tmp_path / "guard.csv"
    rows = [Row(figure("step_s"), 9.0, to_anchor=1.25), Row(figure("calls"), 7.0, to_anchor=2.0)]
    for commit in ("b", "a", "b"):
        append(line_of(commit, "2026-01-01", "do, so", "d1", rows), file)
    first, second = read_lines(file)
    assert (first["commit"], second["commit"], first["subject"]) == ("a", "b", "do, so")
    assert (first["step_s"], first["calls"], first["lines"]) == ("1.25", "7", "")


def test_a_new_column_is_empty_in_older_lines(tmp_path: Path) -> None:
    file = tmp_path / "guard.csv"
    file.write_text("commit,gone\na,1\n")
    append({"commit": "b", "calls": "2"}, file)
    assert [(line["commit"], line["calls"]) for line in read_lines(file)] == [("a", ""), ("b", "2")]
    assert "gone" not in file.read_text()


def test_the_log_is_drawn_by_its_seed_and_grows_at_its_end(tmp_path: Path) -> None:
    assert generated_log(9, seed=1) == generated_log(9, seed=1) != generated_log(9, seed=2)
    assert generated_log(9).startswith(generated_log(5))
    name, file = with_logs(("calls", "LOG_5"), tmp_path)
    assert (name, Path(file).read_text()) == ("calls", LOGS["LOG_5"])


@pytest.mark.parametrize(
    ("pinned", "names"), [("no-such==1", []), ("msgspec==0.0.1", ["msgspec"]), ("numpy==0.0.1", [])]
)
def test_a_commit_has_packages_of_its_own_where_it_needs_other_versions(
    pinned: str, names: list[str]
) -> None:
    project = '[project]\ndependencies = ["msgspec>=0.19"]\n[project.optional-dependencies]\ndemo = []\n'
    assert differing(pinned + "\n", project) == names


# ---------------------------------------------------------------- what it runs
@pytest.fixture
def here(tmp_path: Path) -> Environment:
    """This tree with the interpreter of the tests."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    return Environment("here", ROOT, tmp_path)


def test_a_workload_that_a_commit_cannot_run_leaves_its_rows_empty(
    here: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = Environment("old", tmp_path, here.folder)
    assert once(empty, ["calls", "log.csv"], 0) == {}
    assert "calls of old failed" in capsys.readouterr().err
    assert in_pairs(["calls", "log.csv"], empty, {"baseline": (empty, 1)}, [0]) == ({}, {})


@pytest.fixture
def trees(here: Environment, tmp_path: Path) -> list[Environment]:
    """Two commits that have classes and nothing else."""
    texts = {"ours+": "class HTTPDoor: pass\nclass DoorKey: pass\n", "theirs": "class Key: pass\n"}
    for name, text in texts.items():
        (tmp_path / name / "src").mkdir(parents=True)
        (tmp_path / name / "src" / "one.py").write_text(text)
    return [Environment(name, tmp_path / name, here.folder) for name in texts]


def test_two_commits_go_through_rounds_side_by_side(trees: list[Environment]) -> None:
    ours, theirs = trees
    core = min(os.sched_getaffinity(0))
    values, to_others = in_pairs(["size"], ours, {"baseline": (theirs, 1)}, [core])
    assert values == {"lines": 2, "modules": 1, "classes": 2, "class_words": 3, "cli_options": 0}
    assert to_others["baseline"]["class_words"] == pytest.approx(3)


def test_a_commit_is_measured_alone_where_the_other_cannot_run_the_workload(
    trees: list[Environment], tmp_path: Path
) -> None:
    ours, theirs = trees
    broken = Environment("broken", theirs.tree, tmp_path / "broken")
    (broken.folder / "bin").mkdir(parents=True)
    broken.python.symlink_to("/bin/false")
    core = min(os.sched_getaffinity(0))
    values, to_others = in_pairs(["size"], ours, {"baseline": (broken, 1)}, [core])
    assert (values["classes"], to_others) == (2, {})


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


def test_a_counted_process_tells_of_statements_bytes_and_modules(tmp_path: Path) -> None:
    script = (
        "import sqlite3\nimport socket\n"
        "base = sqlite3.connect(':memory:')\nbase.execute('select 1')\nbase.execute('select 2')\n"
        "listener = socket.create_server(('127.0.0.1', 0))\n"
        "near = socket.create_connection(listener.getsockname())\nfar, _ = listener.accept()\n"
        "near.sendall(b'12345')\nfar.send(b'67')\nassert near.recv(9) == b'67'\n"
    )
    environ = os.environ | {"GUARD_COUNTERS": str(tmp_path), "PYTHONPATH": str(HOOK.parent)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environ)
    (file,) = tmp_path.iterdir()
    statements, sent, received, modules = (
        int.from_bytes(file.read_bytes()[at : at + 8], "little") for at in range(0, 32, 8)
    )
    assert (statements, sent, received) == (2, 7, 2)
    assert modules > 30
