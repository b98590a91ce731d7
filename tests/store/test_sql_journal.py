from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.views import BATCHES, job_view, report

from swell.model.event import StepsReported
from swell.store.database import SCHEMA_VERSION
from swell.store.errors import DamagedState, StateError
from swell.store.journal import SqlJournal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def test_a_fold_gives_space_back_and_keeps_the_answers(path: Path) -> None:
    journal = SqlJournal(path)
    for steps in range(400):
        journal.append([report(steps + part) for part in range(20)])
    before = journal.bytes_on_disk
    journal.keep([job_view()])
    journal.fold(b'{"steps":400}')
    journal.append([report(401)])
    assert journal.bytes_on_disk < before / 10
    assert journal.history().state == b'{"steps":400}'
    assert [entry.batch for entry in journal.history().entries] == [[report(401)]]
    assert journal.job("digits-1") == job_view()


def test_others_may_not_read_it(path: Path) -> None:
    SqlJournal(path).append(BATCHES[0])
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in path.parent.glob("journal.db*")}
    assert modes == {"journal.db": "0o600", "journal.db-wal": "0o600", "journal.db-shm": "0o600"}


WRITER = """
import sys
from pathlib import Path
from swell.store.journal import SqlJournal, packed
from tests.store.views import BATCHES, report

journal = SqlJournal(Path(sys.argv[1]))
for steps in range(1_000_000):
    journal.append([report(steps)])
    print(journal.last_seq, flush=True)
    if steps % 50 == 49:
        seq = steps - 6
        journal.fold_to(seq, packed(str(seq).encode()))
        print("fold", flush=True)
"""


def test_a_writer_killed_in_the_middle_has_lost_nothing_it_acknowledged(path: Path) -> None:
    root = str(Path(__file__).parents[2])
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": root},
    )
    assert writer.stdout is not None
    acknowledged = [writer.stdout.readline() for _ in range(130)]
    writer.send_signal(signal.SIGKILL)
    acknowledged += writer.stdout.read().splitlines()
    writer.wait()
    seqs = [int(line) for line in acknowledged if line.strip().isdigit()]

    history = SqlJournal(path).history()
    entries = list(history.entries)
    found = [entry.seq for entry in entries]
    assert found == list(range(history.seq + 1, history.seq + 1 + len(found))), "no gap"
    assert history.seq + len(found) >= max(seqs) >= 100
    assert history.state == str(history.seq).encode()
    events = [event for entry in entries for event in entry.batch]
    told = [event.steps for event in events if isinstance(event, StepsReported)]
    assert told == [seq - 1 for seq in found]


def test_a_file_that_is_no_database_is_called_damaged(path: Path) -> None:
    path.write_bytes(b"this is not a database, but it is long enough to have been one" * 50)
    with pytest.raises(DamagedState, match=r"journal\.db is damaged.*swell restore COPY"):
        SqlJournal(path)


@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
def test_another_schema_is_refused_by_name(path: Path, version: int) -> None:
    SqlJournal(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute(f"PRAGMA user_version={version}")
    raw.close()
    before = path.read_bytes()
    told = rf"another version of Swell \(schema {version}; this one reads {SCHEMA_VERSION}\)"
    with pytest.raises(StateError, match=told):
        SqlJournal(path)
    assert path.read_bytes() == before
