"""Codes and cookies, with a clock that the test turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.api.page.sessions import CODE_S, MAX_CODES, SESSION_S, Sessions
from swell.api.role import Role
from swell.api.user_list import OWNER, Caller


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


def test_a_code_is_exchanged_once(sessions: Sessions) -> None:
    code = sessions.invite(OWNER)
    cookie = sessions.enter(code)
    assert cookie is not None
    session = sessions.session(cookie)
    assert session is not None
    assert session.caller == OWNER
    assert sessions.enter(code) is None


def test_a_code_dies_after_a_minute(sessions: Sessions, clock: Clock) -> None:
    code = sessions.invite(OWNER)
    clock.now_s += CODE_S
    assert sessions.enter(code) is None


def test_the_oldest_code_dies_of_too_many(sessions: Sessions) -> None:
    codes = [sessions.invite(OWNER) for _ in range(MAX_CODES + 1)]
    assert sessions.enter(codes[0]) is None
    assert sessions.enter(codes[1]) is not None


def test_a_session_ends(sessions: Sessions, clock: Clock) -> None:
    cookie = entered(sessions)
    clock.now_s += SESSION_S - 1
    assert sessions.session(cookie) is not None
    clock.now_s += 1
    assert sessions.session(cookie) is None


def test_it_outlives_the_daemon_and_counts_for_no_other_one(sessions: Sessions, clock: Clock) -> None:
    cookie = entered(sessions)
    again = Sessions("secret", clock).session(cookie)
    assert again == sessions.session(cookie)
    assert Sessions("another", clock).session(cookie) is None


def test_each_session_has_a_csrf_token_of_its_own(sessions: Sessions) -> None:
    tokens = {found.csrf for _ in range(2) if (found := sessions.session(entered(sessions)))}
    assert len(tokens) == 2


def test_who_they_are_goes_with_the_session(sessions: Sessions) -> None:
    ada = Caller("ada", Role.SUBMIT, "vision")
    found = sessions.session(sessions.enter(sessions.invite(ada)) or "")
    assert found is not None
    assert found.caller == ada


@given(st.text() | st.tuples(st.integers(0, 400), st.characters()))
def test_a_cookie_that_was_changed_is_none(change: str | tuple[int, str]) -> None:
    sessions = Sessions("secret", Clock())
    cookie = entered(sessions)
    wrong = change if isinstance(change, str) else _with(cookie, *change)
    assert (sessions.session(wrong) is not None) == (wrong == cookie)


def _with(cookie: str, place: int, char: str) -> str:
    place %= len(cookie)
    return cookie[:place] + char + cookie[place + 1 :]
