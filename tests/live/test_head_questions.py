"""What other threads ask of the head, which may be busy, or end before it answers."""

from __future__ import annotations

import threading

import pytest

from swell.live import head_thread
from swell.live.clock import HeadClock, SystemClocks
from swell.live.head_thread import Inbox
from swell.model.errors import Unavailable


def test_who_asks_a_busy_head_is_told_to_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_thread, "ANSWERED_WITHIN_S", 0.01)
    with pytest.raises(Unavailable, match=r"was busy for 10 ms .* ask again"):
        Inbox(HeadClock(SystemClocks())).consult(int)


def test_who_asks_a_head_that_ends_is_told_so_at_once() -> None:
    asked = Inbox(HeadClock(SystemClocks()))
    told: list[str] = []

    def ask() -> None:
        with pytest.raises(Unavailable) as refused:
            asked.consult(int)
        told.append(str(refused.value))

    before = threading.Thread(target=ask)
    before.start()
    assert asked.take(None) == []  # wakes for the question, and does not answer it
    asked.close()
    before.join()
    ask()
    assert len(told) == 2
    assert all("takes no more requests" in text for text in told)
