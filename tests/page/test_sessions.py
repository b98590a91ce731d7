"""Codes and cookies, with a clock that the test turns."""

from __future__ import annotations

import pytest

from swell.api.page.sessions import CODE_S, SESSION_S, Sessions
from swell.api.user_list import OWNER


class Clock:
    now_s = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    return Sessions("secret", clock)


def entered(sessions: Sessions) -> str:
    cookie = sessions.enter(sessions.invite(OWNER))
    assert cookie is not None
    return cookie


def test_a_code_dies_after_a_minute(sessions: Sessions, clock: Clock) -> None:
    code = sessions.invite(OWNER)
    clock.now_s += CODE_S
    assert sessions.enter(code) is None


def test_a_session_ends(sessions: Sessions, clock: Clock) -> None:
    cookie = entered(sessions)
    clock.now_s += SESSION_S - 1
    assert sessions.session(cookie) is not None
    clock.now_s += 1
    assert sessions.session(cookie) is None
