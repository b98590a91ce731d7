"""The port of the page: opened when it is first asked for, and the same after a restart."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.api.fake_control import FakeControl

from swell.api.connections import ApiServer, bind
from swell.api.daemon import PageDoor
from swell.api.page.page import Page
from swell.api.page.sessions import SessionList
from swell.api.server import create_app
from swell.api.unix_socket import listen
from swell.api.user_list import UserList
from swell.store.folder import StateFolder

TOKEN = "t" * 40


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    folder = StateFolder(tmp_path / "state")
    folder.create()
    return folder


@dataclass
class Daemon:
    """Its API without its platform."""

    folder: StateFolder
    page: Page
    door: PageDoor

    def link(self) -> str:
        """As `swell page` asks for it."""
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(self.folder.socket))) as client:
            answer = client.post("http://localhost/v1/page", headers={"Authorization": f"Bearer {TOKEN}"})
        return str(answer.json()["url"])


@contextmanager
def daemon(folder: StateFolder, port: int | None = None, token: str = TOKEN) -> Iterator[Daemon]:
    door = PageDoor(folder)
    page = Page(FakeControl(folder.path), SessionList(token), door.port)
    listeners = [listen(folder.socket), *([] if port is None else [bind(port)])]
    server = ApiServer(
        create_app(FakeControl(folder.path), token, UserList(folder.path), page=page), *listeners
    )
    server.start()
    door.open(server, port is not None)
    try:
        yield Daemon(folder, page, door)
    finally:
        page.stop()
        server.stop()


def listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def test_there_is_no_port_before_the_page_is_asked_for(folder: StateFolder) -> None:
    with daemon(folder):
        assert not folder.page_port()


def test_a_page_goes_on_after_a_restart_and_ends_with_the_token(folder: StateFolder) -> None:
    with httpx.Client(trust_env=False) as browser:
        with daemon(folder) as first:
            link = first.link()
            port = first.door.port()
            assert link.startswith(f"http://127.0.0.1:{port}/enter?code=")
            assert browser.get(link).status_code == 303
        assert not listens(port)
        with daemon(folder):
            assert browser.get(f"http://127.0.0.1:{port}/").status_code == 200
        with daemon(folder, token="u" * 40):
            assert browser.get(f"http://127.0.0.1:{port}/").status_code == 401


def test_with_a_port_of_the_api_the_page_is_there(folder: StateFolder) -> None:
    with daemon(folder, port=0) as one:
        assert f":{one.door.port()}/" in one.link()
        assert not folder.page_port()


def test_a_port_that_is_taken_meanwhile_is_replaced(folder: StateFolder) -> None:
    with daemon(folder) as one:
        port = one.door.port()
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind(("127.0.0.1", port))
        stranger.listen()
        with daemon(folder) as again, httpx.Client(trust_env=False) as browser:
            assert again.door.port() != port
            assert browser.get(again.link()).status_code == 303
