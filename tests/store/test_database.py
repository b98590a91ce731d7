"""The path of the journal names the file that is written, whatever is done to it meanwhile."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from tests.store.views import BATCHES, job_view, report

from swell.model.event import JobSubmitted
from swell.model.job import JobSpec, Origin
from swell.model.view import Story
from swell.store.errors import StateError, StateUnwritable
from swell.store.journal import SqlJournal

SPEC = JobSpec(name="a", entry="x:y", workdir="/", global_batch=8)


def submitted(job_id: str, key: str = "") -> JobSubmitted:
    return JobSubmitted(at_s=3.0, job_id=job_id, spec=SPEC, origin=Origin(key=key))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.mark.parametrize("harm", ["remove", "remove the log", "replace", "empty"])
def test_a_journal_that_is_taken_away_in_use_is_missed_until_it_is_put_back(path: Path, harm: str) -> None:
    journal = SqlJournal(path)
    journal.append([report(1)])
    taken = path.with_name("journal.db-wal") if harm == "remove the log" else path
    kept = taken.rename(path.with_name("kept"))
    if harm in ("replace", "empty"):
        path.write_bytes(b"x" * 4096 if harm == "replace" else b"")
    for use in (lambda: journal.append([report(2)]), journal.history):
        with pytest.raises(StateUnwritable, match=r"or replaced while in use: put back.*swell restore"):
            use()
    kept.replace(taken)
    journal.append([report(2)])
    assert [entry.batch for entry in journal.history().entries] == [[report(1)], [report(2)]]
    journal.close()
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_batch_is_acknowledged_when_its_log_is_on_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, log = SqlJournal(path), path.with_name("journal.db-wal")
    flushed: list[bytes] = []

    def flush(descriptor: int) -> None:
        assert os.path.samestat(os.fstat(descriptor), log.stat())
        flushed.append(log.read_bytes())

    monkeypatch.setattr(os, "fdatasync", flush)
    journal.append([submitted("a-1")])
    assert len(flushed) == 1 and b"a-1" in flushed[0]

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(StateUnwritable, match="Input/output error"):
        journal.append([submitted("a-2")])
    assert journal.last_seq == 1
    monkeypatch.undo()
    journal.append([submitted("a-3")])
    journal.close()
    (*_, last) = SqlJournal(path).history().entries
    assert (last.seq, last.batch) == (2, [submitted("a-3")])


# ------------------------------------------------------------ damage
def read_all(path: Path) -> None:
    """All that the journal is for."""
    journal = SqlJournal(path)
    try:
        list(journal.history().entries)
        journal.archived_jobs()
        for job_id in ("digits-1", "old", "a-1"):
            journal.stories(job_id)
            journal.submission(job_id)
        journal.submission_of_key("k")
    finally:
        journal.close()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "journal.db"
    journal = SqlJournal(path)
    for batch in BATCHES:
        journal.append(batch)
    journal.append([submitted("a-1", "k")])
    stories = [("old", Story(at_s=float(number), code="c", text="t" * 50)) for number in range(40)]
    journal.keep([job_view(id="old"), job_view(id="b")], stories)
    journal.fold(b'{"n":"' + b"x" * 9000 + b'"}')
    for steps in range(8):
        journal.append([report(steps)])
    journal.close()
    return path


@pytest.mark.slow
@given(data=st.data())
@settings(deadline=None, max_examples=fewer_if_quick(100))
def test_damage_anywhere_ends_in_no_other_error(
    data: st.DataObject, sound: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The error names the way back."""
    harmed = bytearray(sound.read_bytes())
    size = len(harmed)
    if data.draw(st.booleans(), "truncate"):
        del harmed[data.draw(st.integers(1, size - 1), "length") :]
    else:
        # Much of the file is free space: half of the flips go to the header and the first page.
        place = data.draw(st.integers(0, 4095) | st.integers(0, size - 1), "place")
        harmed[place] ^= data.draw(st.integers(1, 255), "flip")
    folder = tmp_path_factory.mktemp("harmed")
    (folder / "journal.db").write_bytes(harmed)
    try:
        read_all(folder / "journal.db")
    except StateError as error:
        assert "swell restore COPY" in str(error) or "install that version" in str(error)
