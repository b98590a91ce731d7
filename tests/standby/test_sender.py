"""A head and its standby: what is acknowledged is in the copy, and a standby that is away stops no head."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import pick, share_of_examples
from tests.executors.puppets import make_spec
from tests.standby.lines import Standby
from tests.store.contract import BATCHES
from tests.store.views import curve_report, job_view

from swell.model.code import CodeFile, CodeTree, object_path, tree_path
from swell.model.coding import encode
from swell.model.event import JobSubmitted
from swell.model.view import Story
from swell.standby.messages import ChangesMade, FileCopied, JournalEnded, JournalPart
from swell.standby.sender import CopySender
from swell.store.journal import SqlJournal

PATIENCE_S = 30.0
NEVER_S = 600.0


class Head:
    """A journal whose transactions go to a standby."""

    def __init__(self, folder: Path, standby: Standby, wait_s: float = NEVER_S) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.sender = CopySender(folder, "standby:7070", standby.line, wait_s=wait_s, look_s=0.01)
        self.journal = SqlJournal(folder / "journal.db", self.sender)

    def start(self) -> None:
        self.sender.start(self.journal.copy)
        await_so(lambda: not self.sender.notice)

    def close(self) -> None:
        self.journal.close()
        self.sender.stop()


def await_so(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def rows_of(journal: Path) -> list[str]:
    with closing(sqlite3.connect(journal)) as raw:
        return list(raw.iterdump())


@pytest.fixture
def standby(tmp_path: Path) -> Standby:
    return Standby(tmp_path / "copy")


@pytest.fixture
def head(tmp_path: Path, standby: Standby) -> Iterator[Head]:
    made = Head(tmp_path / "state", standby)
    yield made
    standby.may_answer.set()
    made.close()


def copies(standby: Standby, head: Head) -> bool:
    return rows_of(standby.folder / "journal.db") == rows_of(head.folder / "journal.db")


Deed = Callable[[SqlJournal, int], object]
DEEDS: tuple[Deed, ...] = (
    lambda journal, n: journal.append([curve_report("a", n + 1, [0.1 * n, float("nan")])]),
    lambda journal, n: journal.append(
        [JobSubmitted(at_s=n / 3, job_id=f"j-{n}", spec=make_spec(name=f"ü-{n}"))]
    ),
    lambda journal, n: journal.note_commands(journal.last_seq, f"digest-{n}"),
    lambda journal, n: journal.fold(
        b'{"n":1}', [job_view(id=f"e-{n}", finished_s=n / 7)], [("a", Story(at_s=n / 3, code="c", text="t"))]
    ),
    lambda journal, n: journal.add_stories([("b", Story(at_s=n / 9, code="c", text="again"))] * 2),
    lambda journal, n: journal.prune([f"e-{n - 1}"], n / 11),
)


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.3))
@given(deeds=st.lists(pick(*range(len(DEEDS))), max_size=12), begun_at=st.integers(0, 12))
def test_the_copy_is_the_journal_after_each_transaction_wherever_it_began(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[int], begun_at: int
) -> None:
    folder = tmp_path_factory.mktemp("law")
    standby = Standby(folder / "copy")
    head = Head(folder / "state", standby)
    for number, deed in enumerate(deeds):
        if number == min(begun_at, len(deeds) - 1):
            head.start()
        DEEDS[deed](head.journal, number)
        if standby.num_lines:
            assert copies(standby, head)
    head.close()


def test_nothing_is_acknowledged_before_it_is_on_the_standbys_disk(head: Head, standby: Standby) -> None:
    head.start()
    standby.may_answer.clear()
    acknowledged: list[bool] = []

    def submit() -> None:
        head.journal.append(BATCHES[0])
        acknowledged.append(copies(standby, head))

    submitting = threading.Thread(target=submit)
    submitting.start()
    assert standby.has_changes.wait(PATIENCE_S)
    assert not acknowledged and not copies(standby, head), "the head dies here: nobody was told anything"
    standby.may_answer.set()
    submitting.join(PATIENCE_S)
    assert acknowledged == [True]


def test_a_slow_standby_stops_the_head_once_and_is_waited_for_again_when_it_has_all(
    tmp_path: Path, standby: Standby
) -> None:
    head = Head(tmp_path / "state", standby, wait_s=0.05)
    head.start()
    standby.may_answer.clear()
    head.journal.append(BATCHES[0])
    assert "is behind (it took longer than 50 ms)" in "".join(head.journal.notices)
    head.sender._wait_s = NEVER_S  # who waits now hangs
    head.journal.append(BATCHES[1])
    assert not copies(standby, head)
    standby.may_answer.set()
    await_so(lambda: not head.sender.notice)
    head.journal.append(BATCHES[2])
    assert copies(standby, head)
    head.close()


@pytest.mark.parametrize("at", [FileCopied, JournalPart, JournalEnded, ChangesMade])
def test_a_line_that_breaks_stops_no_head_and_the_next_one_begins_with_all(
    head: Head, standby: Standby, at: type
) -> None:
    (head.folder / "users.json").write_text("[]")
    head.journal.append(BATCHES[0])
    standby.cut_at = None if at is ChangesMade else at
    head.start()
    standby.cut_at = ChangesMade if at is ChangesMade else None
    head.journal.append(BATCHES[1])
    await_so(lambda: not head.sender.notice)
    head.journal.append(BATCHES[2])
    assert copies(standby, head) and standby.num_lines == 2


def test_a_copy_that_is_cut_off_at_its_beginning_leaves_the_former_one(head: Head, standby: Standby) -> None:
    head.start()
    head.journal.append(BATCHES[0])
    before = rows_of(standby.folder / "journal.db")
    standby.is_there.clear()
    standby.cut_at = ChangesMade
    head.journal.append(BATCHES[1])
    assert "the line was cut" in head.sender.notice
    found: list[list[str]] = []
    standby.at_cut = lambda: found.append(rows_of(standby.folder / "journal.db"))
    standby.cut_at = JournalEnded
    standby.is_there.set()
    await_so(lambda: bool(found))
    assert found == [before]
    await_so(lambda: not head.sender.notice)
    assert copies(standby, head)


def test_what_the_next_head_must_know_of_hosts_is_there_before_what_is_commanded_of_them(
    head: Head, standby: Standby
) -> None:
    """A host has its lease, then its devices are told of; a command that names them follows that batch."""
    head.start()
    (head.folder / "leases.json").write_text("[1]")
    head.journal.append(BATCHES[0])
    kinds = [
        message
        for message in standby.told
        if isinstance(message, FileCopied) or (isinstance(message, ChangesMade) and message.transactions)
    ]
    assert [type(message) for message in kinds[-2:]] == [FileCopied, ChangesMade]
    assert (standby.folder / "leases.json").read_text() == "[1]"


def keep_code(folder: Path, text: bytes) -> tuple[Path, Path]:
    """As a submission does; the file of the content, and of the snapshot."""
    digest = text.hex()
    tree = CodeTree(
        roots=("/w",), files={"/w/a.py": CodeFile(digest, len(text))}, links={}, sources_digest="s"
    )
    paths = object_path(folder, digest), tree_path(folder, digest)
    for path, content in zip(paths, (text, encode(tree)), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return paths


def test_the_code_of_a_job_is_there_when_its_submission_is(head: Head, standby: Standby) -> None:
    first = keep_code(head.folder, b"one")
    head.start()
    second = keep_code(head.folder, b"two")
    head.journal.append(BATCHES[0])
    for path in (*first, *second):
        assert (standby.folder / path.relative_to(head.folder)).read_bytes() == path.read_bytes()


def test_a_file_that_is_gone_is_gone_from_the_copy(head: Head, standby: Standby) -> None:
    users = head.folder / "users.json"
    users.write_text("[]")
    _, tree = keep_code(head.folder, b"one")
    head.start()
    assert (standby.folder / "users.json").exists()
    users.unlink()
    tree.unlink()
    head.journal.append(BATCHES[0])
    assert not (standby.folder / "users.json").exists()
    standby.cut_at = ChangesMade
    head.journal.append(BATCHES[1])
    await_so(lambda: not head.sender.notice)
    assert not (standby.folder / tree.relative_to(head.folder)).exists(), "with the next line"


def test_a_standby_that_was_never_there_stops_nothing(tmp_path: Path, standby: Standby) -> None:
    standby.is_there.clear()
    head = Head(tmp_path / "state", standby)
    head.sender.start(head.journal.copy)
    head.journal.append(BATCHES[0])
    await_so(lambda: "it is away" in head.sender.notice)
    head.close()
