"""A platform that other users of the machine reach through a folder of their group."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.api.fake_control import FakeControl

from swell.api.client import connect, connect_as_owner
from swell.api.connections import ApiServer
from swell.api.errors import AccessRefused, InvalidOption, NoPlatform
from swell.api.page.page import Page
from swell.api.role import Role
from swell.api.server import create_app
from swell.api.unix_socket import announce, listen, shared_socket
from swell.api.user_list import UserList
from swell.store.errors import StateError
from swell.store.folder import ApiAddress, StateFolder

#: Another user, and a group that only some are in.
STRANGER, GROUP = 65534, 4242


class SharedSite:
    """A server at its own socket and at a shared one."""

    def __init__(self, root: Path, opened: ExitStack) -> None:
        self.state, self.shared = StateFolder(root / "state"), root / "shared"
        self.state.create()
        self.shared.mkdir(mode=0o750)
        self.users = UserList(self.state.path)
        listener = opened.enter_context(shared_socket(str(self.shared)))
        self.control = FakeControl(root / "logs")
        self.page = Page(self.control, port=lambda: 1)
        app = create_app(self.control, self.state.ensure_token(), self.users, page=self.page)
        server = ApiServer(app, listen(self.state.socket), listener)
        server.start()
        opened.callback(server.stop)
        endpoint = ApiAddress.of_this_process()
        self.state.write_endpoint(endpoint)
        announce(str(self.shared), endpoint)

    def add(self, role: Role, tenant: str = "") -> str:
        return self.users.add("ana", role, tenant)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[SharedSite]:
    with ExitStack() as opened:
        yield SharedSite(tmp_path, opened)


def test_a_user_uses_the_platform_through_the_shared_folder(site: SharedSite) -> None:
    token = site.add(Role.VIEW)
    with connect(site.shared, token) as client:
        assert client.cluster().policy == "elasticflow"
        with pytest.raises(AccessRefused, match="role view"):
            client.stop()
        site.users.remove("ana")
        with pytest.raises(AccessRefused, match="token"):
            client.jobs()
    with pytest.raises(AccessRefused, match="token"):
        connect(site.shared, token)


def test_who_names_the_shared_folder_without_a_token_is_told_so(site: SharedSite) -> None:
    with pytest.raises(AccessRefused, match="is shared by it, set SWELL_TOKEN"):
        connect(site.shared)


def test_the_environment_has_the_token(site: SharedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWELL_TOKEN", site.add(Role.VIEW))
    with connect(site.shared) as client, pytest.raises(AccessRefused):
        client.stop()
    with connect(site.state.path) as client, pytest.raises(AccessRefused):
        client.stop()


def test_the_owner_needs_no_token(site: SharedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWELL_TOKEN", "of-another-platform")
    with connect_as_owner(site.state.path) as client:
        assert client.cluster().policy == "elasticflow"


def test_nothing_but_socket_and_endpoint_is_in_the_folder_and_neither_afterwards(tmp_path: Path) -> None:
    with ExitStack() as opened:
        site = SharedSite(tmp_path, opened)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in site.shared.iterdir()}
        assert modes == {"api.sock": 0o660, "endpoint.json": 0o644}
    assert list(site.shared.iterdir()) == []


def test_a_folder_that_others_can_write_is_refused_by_both_sides(site: SharedSite) -> None:
    site.shared.chmod(0o770)
    with pytest.raises(StateError, match="chmod go-w"):
        connect(site.shared, site.add(Role.VIEW))
    with pytest.raises(InvalidOption, match="chmod go-w"), shared_socket(str(site.shared)):
        pass


@pytest.mark.parametrize("name", ["absent", "file", "state", "deep" * 40])
def test_a_folder_that_cannot_be_shared_is_named(tmp_path: Path, name: str) -> None:
    StateFolder(tmp_path / "state").create()
    StateFolder(tmp_path / "state").ensure_token()
    (tmp_path / "file").touch()
    (tmp_path / ("deep" * 40)).mkdir()
    with pytest.raises(InvalidOption, match="--share"), shared_socket(str(tmp_path / name)):
        pass


def test_a_process_of_another_user_there_gets_no_token(site: SharedSite) -> None:
    token = site.add(Role.VIEW)
    endpoint = ApiAddress(pid=os.getppid(), started_ticks=0)
    announce(str(site.shared), endpoint)
    with pytest.raises(NoPlatform):
        connect(site.shared, token)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_member_of_the_group_may_connect_and_no_other_user() -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        root = Path(name)  # those of pytest's fixture are closed to other users
        root.chmod(0o755)
        member, other = Stranger([GROUP]), Stranger([])  # before there is a thread
        site = _of_group(root, opened)
        token = site.users.add("ana", Role.VIEW)
        assert member.ask(site.shared / "api.sock", token) == "200"
        assert other.ask(site.shared / "api.sock", token) == "PermissionError"


def _of_group(root: Path, opened: ExitStack) -> SharedSite:
    """As `SharedSite`, with a folder of the group."""
    before = os.getegid()
    os.setegid(GROUP)
    try:
        return SharedSite(root, opened)
    finally:
        os.setegid(before)


class Stranger:
    """A process of another user that sends one request: a fork, since they may not be able to read Python."""

    def __init__(self, groups: list[int]) -> None:
        theirs, self._mine = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            os.setgroups(groups)
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            path, token = theirs.recv(4096).decode().split()
            theirs.sendall(_status(path, token).encode())
            os._exit(0)
        theirs.close()

    def ask(self, path: Path, token: str) -> str:
        """The status of the answer, or what kept it from connecting."""
        self._mine.sendall(f"{path} {token}".encode())
        self._mine.settimeout(20.0)
        with self._mine:
            answer = self._mine.recv(4096).decode()
        os.waitpid(self._pid, 0)
        return answer


def _status(path: str, token: str) -> str:
    head = f"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
        except OSError as error:
            return type(error).__name__
        connection.sendall(head.encode())
        return connection.recv(4096).split()[1].decode()
