"""Codes and cookies, with a clock that the test turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.api.caller import OWNER, Caller, Role
from swell.api.page.sessions import CODE_S, MAX_CODES, SESSION_S, Sessions

OWNER_UID = 7


class Clock:
    now_s = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    return Sessions("secret", clock, OWNER_UID)


def entered(sessions: Sessions, uid: int | None = 7) -> str:
    cookie = sessions.enter(sessions.invite(OWNER), uid)
    assert cookie is not None
    return cookie


def test_a_code_is_exchanged_once(sessions: Sessions) -> None:
    code = sessions.invite(OWNER)
    cookie = sessions.enter(code, 7)
    assert cookie is not None
    session = sessions.session(cookie, 7)
    assert session is not None
    assert session.caller == OWNER
    assert sessions.enter(code, 7) is None


def test_the_owners_code_counts_for_the_owner_only(sessions: Sessions) -> None:
    """Any user can read it off the command line of a browser."""
    code = sessions.invite(OWNER)
    assert sessions.enter(code, 8) is None
    assert sessions.enter(code, OWNER_UID) is not None
    for uid in (0, None):  # root, and where the kernel does not say
        assert sessions.enter(sessions.invite(OWNER), uid) is not None


UIDS = st.none() | st.integers(0, 3)


@given(st.booleans(), UIDS, UIDS)
def test_a_code_counts_for_the_user_who_asked_for_it_and_for_root(
    is_owner: bool, asked_uid: int | None, entering_uid: int | None
) -> None:
    """Where the kernel names one of them only, nothing can be compared."""
    sessions = Sessions("secret", Clock(), owner_uid=1)
    code = sessions.invite(OWNER if is_owner else Caller("ana", Role.SUBMIT), asked_uid)
    wanted_uid = 1 if is_owner else asked_uid
    may = wanted_uid is None or entering_uid in (None, 0, wanted_uid)
    for _ in range(2):  # another user does not use it up
        if not may:
            assert sessions.enter(code, entering_uid) is None
    assert sessions.enter(code, entering_uid if may else wanted_uid) is not None


def test_a_code_dies_after_a_minute(sessions: Sessions, clock: Clock) -> None:
    code = sessions.invite(OWNER)
    clock.now_s += CODE_S
    assert sessions.enter(code, 7) is None


def test_the_oldest_code_dies_of_too_many(sessions: Sessions) -> None:
    codes = [sessions.invite(OWNER) for _ in range(MAX_CODES + 1)]
    assert sessions.enter(codes[0], 7) is None
    assert sessions.enter(codes[1], 7) is not None


def test_a_session_ends(sessions: Sessions, clock: Clock) -> None:
    cookie = entered(sessions)
    clock.now_s += SESSION_S - 1
    assert sessions.session(cookie, 7) is not None
    clock.now_s += 1
    assert sessions.session(cookie, 7) is None


def test_a_session_is_of_the_user_whose_browser_began_it(sessions: Sessions) -> None:
    cookie = entered(sessions, uid=7)
    assert sessions.session(cookie, 8) is None
    assert sessions.session(cookie, None) is None


def test_it_outlives_the_daemon_and_counts_for_no_other_one(sessions: Sessions, clock: Clock) -> None:
    cookie = entered(sessions)
    again = Sessions("secret", clock).session(cookie, 7)
    assert again == sessions.session(cookie, 7)
    assert Sessions("another", clock).session(cookie, 7) is None


def test_each_session_has_a_csrf_token_of_its_own(sessions: Sessions) -> None:
    tokens = {found.csrf for _ in range(2) if (found := sessions.session(entered(sessions), 7))}
    assert len(tokens) == 2


def test_who_they_are_goes_with_the_session(sessions: Sessions) -> None:
    ada = Caller("ada", Role.SUBMIT, "vision")
    found = sessions.session(sessions.enter(sessions.invite(ada), 7) or "", 7)
    assert found is not None
    assert found.caller == ada


@given(st.text() | st.tuples(st.integers(0, 400), st.characters()))
def test_a_cookie_that_was_changed_is_none(change: str | tuple[int, str]) -> None:
    sessions = Sessions("secret", Clock(), OWNER_UID)
    cookie = entered(sessions)
    wrong = change if isinstance(change, str) else _with(cookie, *change)
    assert (sessions.session(wrong, 7) is not None) == (wrong == cookie)


def _with(cookie: str, place: int, char: str) -> str:
    place %= len(cookie)
    return cookie[:place] + char + cookie[place + 1 :]
