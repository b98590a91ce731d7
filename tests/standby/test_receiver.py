"""A standby on loopback: who may copy there, and which of two heads does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.standby.test_sender import NEVER_S, await_so, rows_of
from tests.store.contract import BATCHES

from swell.executors.remote.certificate import fingerprint_of, make_certificate
from swell.executors.remote.head_term import write_head_term
from swell.executors.remote.host_address import HostAddress
from swell.executors.remote.join_token import JoinToken, write_token
from swell.executors.remote.token_list import TokenList
from swell.standby.line import standby_line
from swell.standby.messages import FileCopied
from swell.standby.receiver import CopyReceiver
from swell.standby.sender import CopySender, StandbyError
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal


class Place:
    """A standby that listens, and heads with its token."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.copy = folder, folder / "copy"
        certificate, tokens = make_certificate(folder), TokenList(folder)
        self.token = tokens.add("standby", fingerprint_of(certificate))
        self.listener = socket.create_server(("127.0.0.1", 0))
        receiver = CopyReceiver(self.copy, certificate, tokens)
        threading.Thread(target=receiver.serve, args=(self.listener,), daemon=True).start()
        self.address = HostAddress("127.0.0.1", self.listener.getsockname()[1])

    def head(self, name: str, token: JoinToken | None = None) -> StateFolder:
        """State folder of one."""
        folder = StateFolder(self._folder / name)
        folder.create()
        write_token(folder.standby_token, token or self.token)
        return folder


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.listener.close()


def test_a_head_copies_its_journal_over_the_line(place: Place) -> None:
    folder = place.head("head")
    sender = CopySender(folder.path, "x", partial(standby_line, folder, place.address), wait_s=NEVER_S)
    journal = SqlJournal(folder.journal, sender)
    sender.start(journal.copy)
    await_so(lambda: not sender.notice)
    journal.append(BATCHES[0])
    assert rows_of(place.copy / "journal.db") == rows_of(folder.journal)
    journal.close()
    sender.stop()


def test_a_stranger_copies_nothing(place: Place) -> None:
    other = JoinToken("standby", place.token.fingerprint, bytes(32))
    with (
        pytest.raises(StandbyError, match="is not known here"),
        standby_line(place.head("head", other), place.address),
    ):
        pass
    assert not place.copy.exists()


def test_a_head_trusts_the_standby_of_its_token_only(place: Place) -> None:
    other = JoinToken("standby", bytes(32), place.token.secret)
    with (
        pytest.raises(StandbyError, match="another certificate than"),
        standby_line(place.head("head", other), place.address),
    ):
        pass


def test_a_head_that_another_one_took_over_from_is_refused(place: Place) -> None:
    place.copy.mkdir()
    write_head_term(place.copy, 1)
    with (
        pytest.raises(StandbyError, match=r"another head has taken over .* `swell down --force`"),
        standby_line(place.head("head"), place.address),
    ):
        pass


def test_the_newest_of_two_lines_copies(place: Place) -> None:
    folder = place.head("head")
    with standby_line(folder, place.address) as first, standby_line(folder, place.address) as second:
        with pytest.raises(OSError, match=r"."):
            first.tell(FileCopied(name="users.json", content=b"old"))
        second.tell(FileCopied(name="users.json", content=b"new"))
    assert (place.copy / "users.json").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["../users.json", "/etc/passwd", "code/../../x", "journal.db", "code/x"])
def test_only_files_of_a_copy_are_taken(place: Place, name: str) -> None:
    with (
        standby_line(place.head("head"), place.address) as line,
        pytest.raises(StandbyError, match="is no file that a copy has"),
    ):
        line.tell(FileCopied(name=name, content=b""))
