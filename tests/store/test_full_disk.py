"""The state folder on a disk that is full, and freed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.full_disk import fill, mounted
from tests.store.views import report

from swell.store.errors import StateError, StateUnwritable
from swell.store.folder import ApiAddress, StateFolder
from swell.store.journal import SqlJournal
from swell.store.lock import lock_state

DISK_BYTES = 12 << 20  # more than the write-ahead log's room
BATCH = [report(steps) for steps in range(5)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", DISK_BYTES) as folder:
        yield folder


def test_the_journal_has_room_of_its_own_and_says_when_that_is_used_up(disk: Path) -> None:
    path = disk / "journal.db"
    journal = SqlJournal(path)
    journal.append(BATCH)
    ballast = fill(disk)
    with pytest.raises(StateUnwritable, match="full; make room on its disk"):
        for _ in range(100_000):
            journal.append(BATCH)
    num_batches = journal.last_seq
    assert num_batches > 300
    for _ in range(3):
        with pytest.raises(StateUnwritable):
            journal.append(BATCH)
    assert journal.last_seq == num_batches
    ballast.unlink()
    journal.append(BATCH)
    journal.close()
    again = SqlJournal(path)
    assert [entry.seq for entry in again.history().entries] == list(range(1, num_batches + 2))
    again.close()


def test_a_notice_can_be_written_where_nothing_else_can(disk: Path) -> None:
    folder = StateFolder(disk / "state")
    folder.create()
    assert folder.read_notice() is None
    folder.write_notice("")
    assert folder.read_notice() is None
    with lock_state(folder.lock):
        pass
    fill(disk)
    folder.write_notice("the disk is full " * 1000)
    notice = folder.read_notice()
    assert notice is not None and notice.message.startswith("the disk is full the disk")
    folder.write_notice("shorter")
    notice = folder.read_notice()
    assert notice is not None and notice.message == "shorter"
    folder.write_notice("")
    assert folder.read_notice() is None
    with lock_state(folder.lock):  # its pid finds room where the one before it was
        pass
    with pytest.raises(
        StateError, match=r"cannot write .*endpoint\.json \(No space left on device\); make room"
    ):
        folder.write_endpoint(ApiAddress(pid=2, started_ticks=1))
