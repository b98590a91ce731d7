"""Users and limits of tenants, in their file."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick

from swell.api.role import Role
from swell.api.user_list import OWNER, TOKEN_PREFIX, ApiUser, TenantLimits, UserList, UserListError

NOW_S = 1_800_000_000.0


def users_in(folder: Path, now_s: float = NOW_S) -> UserList:
    return UserList(folder, lambda: now_s)


def test_a_token_is_its_users_until_the_user_is_removed(tmp_path: Path) -> None:
    writer, reader = users_in(tmp_path), users_in(tmp_path)
    assert not reader.users()
    token = writer.add("ana", Role.SUBMIT, "vision")
    caller = ApiUser("ana", Role.SUBMIT, "vision", NOW_S)
    assert reader.find(token) == caller
    assert reader.is_current(caller)
    writer.remove("ana")
    assert reader.find(token) is None
    assert not reader.is_current(caller)
    assert reader.is_current(OWNER)


@settings(max_examples=fewer_if_quick(20), deadline=None)
@given(
    st.sampled_from(Role),
    st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=40),
)
def test_only_a_digest_is_on_disk_and_only_the_owner_can_read_it(
    tmp_path_factory: pytest.TempPathFactory, role: Role, name: str
) -> None:
    folder = tmp_path_factory.mktemp("users")
    if name == OWNER.name:
        return
    token = users_in(folder).add(name, role, "vision" if role is Role.SUBMIT else "")
    assert token.startswith(TOKEN_PREFIX)
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert token.removeprefix(TOKEN_PREFIX).encode() not in path.read_bytes()
    found = users_in(folder).find(token)
    assert found == ApiUser(name, role, "vision" if role is Role.SUBMIT else "", NOW_S)


def test_a_name_is_given_once(tmp_path: Path) -> None:
    users = users_in(tmp_path)
    token = users.add("ana", Role.VIEW)
    with pytest.raises(UserListError, match="swell admin users remove ana"):
        users.add("ana", Role.OPERATE)
    with pytest.raises(UserListError, match="users are: ana"):
        users.remove("bob")
    assert users.find(token) == ApiUser("ana", Role.VIEW, added_s=NOW_S)


@pytest.mark.parametrize(
    "content",
    [b"{", b"\xff", b"[]", b'{"users":{"ana":{"sha256":"","role":"god","added_s":1}}}', b'{"user":{}}'],
)
def test_a_damaged_file_is_named_and_lets_nobody_in(tmp_path: Path, content: bytes) -> None:
    users = users_in(tmp_path)
    token = users.add("ana", Role.OPERATE)
    (tmp_path / "users.json").write_bytes(content)
    for call in (lambda: users.find(token), lambda: users.limits_of("vision"), lambda: users.remove("ana")):
        with pytest.raises(UserListError, match=r"users\.json is damaged"):
            call()


def test_no_change_is_lost_where_many_are_made_at_once(tmp_path: Path) -> None:
    def change(number: int) -> None:
        users = users_in(tmp_path)
        users.add(f"user{number}", Role.VIEW)
        users.limit(f"tenant{number}", TenantLimits(open_jobs=number))

    threads = [threading.Thread(target=change, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    users = users_in(tmp_path)
    assert set(users.users()) == {f"user{number}" for number in range(12)}
    assert users.limits_of("tenant7") == TenantLimits(open_jobs=7)
