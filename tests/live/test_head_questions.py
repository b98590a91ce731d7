"""What other threads ask of the head: a thread that asks while it is busy is told to ask again."""

from __future__ import annotations

import pytest

from swell.live import inbox
from swell.live.clock import HeadClock, SystemClocks
from swell.live.inbox import Inbox
from swell.model.errors import Unavailable


def test_who_asks_a_busy_head_is_told_to_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "ANSWERED_WITHIN_S", 0.01)
    with pytest.raises(Unavailable, match=r"was busy for 10 ms .* ask again"):
        Inbox(HeadClock(SystemClocks())).consult(int)
