"""What a forked call reads stands still, it has none of its parent's files, and it ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.views import report

from swell.live import forked_call
from swell.live.forked_call import ForkedCall, ForkedCallError
from swell.live.head_journal import FOLD_AFTER, FOLD_AGAIN_AFTER, HeadJournal
from swell.store.journal import SqlJournal
from swell.wire.whole_files import try_lock

from .test_platform import until

HOLDER = """
import os, signal, sys
from swell.live.forked_call import ForkedCall
from swell.wire.whole_files import try_lock

assert try_lock(os.open(sys.argv[1], os.O_RDWR))
print(ForkedCall(signal.pause)._pid, flush=True)
signal.pause()
"""


def stop_here() -> None:
    """Until the test has the process go on."""
    os.kill(os.getpid(), signal.SIGSTOP)


def go_on(call: ForkedCall) -> None:
    """Have a call go on that has stopped, and wait for its end."""
    os.waitid(os.P_PID, call._pid, os.WSTOPPED | os.WNOWAIT)
    assert call.answer() is None
    os.kill(call._pid, signal.SIGCONT)
    wait_for(call)


def wait_for(call: ForkedCall) -> None:
    os.waitid(os.P_PID, call._pid, os.WEXITED | os.WNOWAIT)


def test_what_it_reads_stands_still_and_files_of_the_parent_are_not_there(tmp_path: Path) -> None:
    values = [1]

    def call() -> bytes:
        stop_here()
        names = {os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")}
        return f"{values} {opened.name in names}".encode()

    with (tmp_path / "file").open("w") as opened:
        forked = ForkedCall(call)
        values.append(2)
        go_on(forked)
        answer = forked.answer()
    assert answer is not None and answer.content == b"[1] False" and answer.cpu_s >= 0.0


def test_an_error_and_a_death_of_the_child_are_errors_here() -> None:
    def raise_one() -> bytes:
        raise KeyError("jobs")

    for call, told in ((raise_one, "KeyError: 'jobs'"), (os.abort, "ended with -6")):
        forked = ForkedCall(call)
        wait_for(forked)
        with pytest.raises(ForkedCallError, match=told):
            forked.answer()


def test_one_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang() -> bytes:
        signal.pause()
        return b""

    monkeypatch.setattr(forked_call, "LONGEST_S", 1)
    forked = ForkedCall(hang)
    wait_for(forked)
    with pytest.raises(ForkedCallError, match="ended with -14"):
        forked.answer()


def test_it_ends_with_a_killed_parent_and_holds_none_of_its_locks(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent, lock.open("r+") as file:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not try_lock(file.fileno())
        parent.kill()
        parent.wait()
        until(lambda: try_lock(file.fileno()))
        until(lambda: not Path(f"/proc/{pid}/exe").exists())


def test_turns_go_on_during_a_fold_and_are_kept_after_it(tmp_path: Path) -> None:
    store = SqlJournal(tmp_path / "journal.db")
    journal, states = HeadJournal(store), [b"first"]

    def save() -> bytes:
        stop_here()
        return states[-1]

    def begun() -> ForkedCall:
        assert journal.is_fold_due(0.0)
        journal.begin_fold(save, num_open=0)
        assert not journal.is_fold_due(1e6), "one at a time"
        assert journal._fold is not None
        return journal._fold[1]

    def go_for(num_batches: int) -> None:
        for _ in range(num_batches):
            journal.append([report(store.last_seq)])

    go_for(FOLD_AFTER)
    call = begun()
    states.append(b"second")
    journal.end_fold()
    go_for(3)
    journal.end_fold()
    assert store.history().state is None
    go_on(call)
    journal.end_fold()
    history = store.history()
    assert (history.state, history.seq) == (b"first", FOLD_AFTER)
    assert [entry.seq for entry in history.entries] == [FOLD_AFTER + number for number in (1, 2, 3)]

    call = begun()  # decisions have computed for long meanwhile
    os.kill(call._pid, signal.SIGKILL)
    wait_for(call)
    journal.end_fold()
    assert store.history().state == b"first", "batches say the same"
    assert not journal.is_fold_due(0.0)
    go_for(FOLD_AGAIN_AFTER)
    begun()
    journal.drop_fold()
    journal.fold(lambda: states[-1])
    assert store.history().state == b"second"
    assert SqlJournal(tmp_path / "journal.db").last_seq == store.last_seq == FOLD_AFTER + FOLD_AGAIN_AFTER + 3
