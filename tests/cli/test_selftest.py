"""`swell selftest` as its users have it."""

from __future__ import annotations

import getpass
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.cli.conftest import Run, plain_environ
from tests.cli.test_program import fails
from tests.eventually import eventually

from swell.cli.launch import PROGRAM
from swell.executors.local.devices import LocalNode

pytest.importorskip("torch")

from swell.measure import report as r
from swell.measure import self_test  # it imports torch

GOOD = r.row_of(r.KILL, 0.06, "2 workers", is_gpu=False)
BAD = r.row_of(r.EQUAL, 1e-3, "growth", is_gpu=False)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[r.Row]:
    """What is found in place of two minutes of real workers."""
    rows = list[r.Row]()

    def measure(node: LocalNode, folder: Path, *tell: Callable[[str], None]) -> list[r.Row]:
        assert folder.is_dir()
        return rows

    monkeypatch.setattr(self_test, "measure", measure)
    return rows


def test_a_selftest_is_a_table_and_a_verdict(here: Run, found: list[r.Row], tmp_path: Path) -> None:
    found += [GOOD]
    done = here("selftest", "--devices", "cpu:2", "--json", tmp_path / "result.json")
    assert done.returncode == 0, done
    heading, row, _, verdict = done.stdout.splitlines()
    assert heading.split() == ["WHAT", "MEASURED", "SWELL", "EXPECTS", "NORMAL", "VERDICT"]
    assert row.split()[-7:] == ["0.060", "s", "-", "<=", "2.000", "s", "ok"]
    assert verdict.startswith("OK: 1 checks on 2 x cpu")
    assert json.loads((tmp_path / "result.json").read_text())["rows"][0]["measured"] == 0.06


def test_a_bad_row_is_the_exit_status_and_is_named(here: Run, found: list[r.Row]) -> None:
    found += [GOOD, BAD]
    done = here("selftest", "--devices", "cpu:2")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == f"NOT OK: 1 of 2 checks on 2 x cpu: {BAD.what}: wrong"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--devices", "gpu"), "--devices: "),
        (("--devices", "none"), "that is no device; name devices"),
        (("--devices", "paced:2@100"), "paced devices"),
        (("--devices", "cpu:1", "--json", "no/folder/x.json"), "--json: there is no folder"),
    ],
)
def test_what_cannot_be_tested_is_one_line(
    here: Run, found: list[r.Row], words: tuple[str, ...], part: str
) -> None:
    fails(here("selftest", *words), 2, part)


def left_of(folder: Path) -> set[int]:
    """Processes that were started for a self-test in this folder."""
    found = set()
    for process in psutil.process_iter():
        try:
            told = " ".join([*process.cmdline(), *process.environ().values()])
        except psutil.Error:
            continue
        if f"{folder}/swell-selftest-" in told:
            found.add(process.pid)
    return found


def begin(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, "selftest", *words],
        env=plain_environ() | {"TMPDIR": str(folder)},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_cores_train_as_plain_torch_does(tmp_path: Path) -> None:
    """Every part is measured and equal, nothing is left, and the report has no name of this machine."""
    test = begin(tmp_path, "--devices", "cpu:2", "--json", "result.json")
    out, errors = test.communicate(timeout=300)
    text = (tmp_path / "result.json").read_text()
    rows = [r.Row(**row) for row in json.loads(text)["rows"]]
    # A busy machine is slow, and nothing else.
    assert {row.verdict for row in rows} <= {r.CheckVerdict.OK, r.CheckVerdict.SLOW}, out + errors
    assert test.returncode == any(row.verdict == r.CheckVerdict.SLOW for row in rows)
    apart = [row.measured for row in rows if row.unit == r.APART]
    assert len(apart) == 3 and all(value is not None and value <= 1e-9 for value in apart)
    assert len({row.what for row in rows}) == len(rows) == 19
    for name in (socket.gethostname(), getpass.getuser(), str(tmp_path), os.path.expanduser("~"), "/"):
        assert name not in text.replace("GB/s", "")
    assert not list(tmp_path.glob("swell-selftest-*"))
    assert not left_of(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_selftest_that_is_ended_leaves_no_process_and_no_folder(tmp_path: Path, number: int) -> None:
    test = begin(tmp_path, "--devices", "cpu:2")
    eventually(lambda: len(left_of(tmp_path)) >= 4, "the agent has started workers")
    test.send_signal(number)
    assert test.wait(60) != 0
    eventually(lambda: not list(tmp_path.glob("swell-selftest-*")), "the folder is gone")
    eventually(lambda: not left_of(tmp_path), "its processes are gone")
