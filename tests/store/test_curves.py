"""Curves in the journal's database: nothing lost and nothing twice, whenever the process dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.views import curve_report

from swell.store import curves as curves_module
from swell.store.errors import StateUnwritable
from swell.store.journal import SqlJournal
from swell.wire.reports import MOST_METRICS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture(params=[1, 4, 256])
def batches_together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Rows are written at once, now and then, or never within a test."""
    monkeypatch.setattr(curves_module, "BATCHES_TOGETHER", request.param)
    yield request.param


def steps_of(journal: SqlJournal, job_id: str) -> list[int]:
    """Of the loss; each point of the tests stands for one step."""
    points = journal.curves(job_id).get("loss", [])
    assert all(point.tally.count == 1 for point in points)
    return [point.first_step for point in points]


def test_a_write_that_failed_and_was_done_all_the_same_counts_once(
    path: Path, batches_together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = SqlJournal(path)
    for step in range(1, 6):
        journal.append([curve_report("a", step, [1.0])])
    stay = journal._stay

    def fail() -> None:
        raise StateUnwritable("the disk went away after the commit")

    monkeypatch.setattr(journal, "_stay", fail)
    with pytest.raises(StateUnwritable):
        journal.append([curve_report("a", 6, [1.0])])
    monkeypatch.setattr(journal, "_stay", stay)
    journal.append([curve_report("a", 6, [1.0]), curve_report("b", 1, [1.0])])
    for step in range(7, 12):
        journal.append([curve_report("a", step, [1.0])])
    assert steps_of(journal, "a") == list(range(1, 12)) and steps_of(journal, "b") == [1]
    journal.close()
    assert steps_of(SqlJournal(path), "a") == list(range(1, 12))


WRITER = """
import itertools, sys
from pathlib import Path
from swell.store import curves
from swell.store.journal import SqlJournal
from tests.store.views import curve_report
curves.BATCHES_TOGETHER = 8
journal = SqlJournal(Path(sys.argv[1]))
for step in itertools.count(1):
    journal.append([curve_report(f"job-{number}", step, [1.0]) for number in range(3)])
    print(step, flush=True)
"""


def test_a_writer_that_is_killed_has_each_value_of_its_batches_once(path: Path) -> None:
    root = str(Path(__file__).parents[2])
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, root])},
    )
    assert writer.stdout is not None
    acknowledged = [writer.stdout.readline() for _ in range(60)]
    writer.send_signal(signal.SIGKILL)
    acknowledged += writer.stdout.read().splitlines()
    writer.wait()

    journal = SqlJournal(path)
    assert journal.last_seq >= int(acknowledged[-1]) >= 60
    for number in range(3):
        assert steps_of(journal, f"job-{number}") == list(range(1, journal.last_seq + 1))


def test_what_is_told_again_is_there_once(path: Path, batches_together: int) -> None:
    journal = SqlJournal(path)
    for step in range(1, 9):
        journal.append([curve_report("a", step, [1.0])])
    for step in range(5, 9):  # of which the daemon had acknowledged none
        journal.append([curve_report("a", step, [1.0])])
    for step in range(9, 14):
        journal.append([curve_report("a", step, [1.0], mark=step + 1)])
    for _ in range(2):
        points = journal.curves("a")["loss"]
        assert sum(point.tally.count for point in points) == 13
        assert [point.first_step for point in points] == [*range(1, 14)]
        journal.close()
        journal = SqlJournal(path)


def test_a_job_has_so_many_names_and_no_more(path: Path, batches_together: int) -> None:
    journal = SqlJournal(path)
    for step in range(1, 4):
        (tally,) = curve_report("a", step, [1.0]).curves.values()
        many = {f"metric {number:03}": tally for number in range(MOST_METRICS + 50)}
        journal.append([curve_report("a", step, [1.0], curves=many)])
    for step in range(4, 200):
        journal.append([curve_report("b", step, [1.0])])
    assert len(journal.curves("a")) == MOST_METRICS
    journal.close()
    assert len(SqlJournal(path).curves("a")) == MOST_METRICS
