"""The page of a fake platform, served for real."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.api.fake_control import FakeControl

from swell.api.connections import ApiServer, bind
from swell.api.page.page import Page
from swell.api.role import Role
from swell.api.server import create_app
from swell.api.user_list import OWNER, ApiUser, UserList

TOKEN = "t" * 40


@dataclass
class Served:
    """A page on a port, and the platform behind it."""

    control: FakeControl
    page: Page
    port: int
    users: UserList

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def user(self, name: str, role: Role, tenant: str = "") -> ApiUser:
        """Whom the operator has added."""
        found = self.users.find(self.users.add(name, role, tenant))
        assert found is not None
        return found

    def browser(self) -> httpx.Client:
        """One that has not opened the page."""
        return httpx.Client(base_url=self.url, trust_env=False, headers={"Accept": "text/html"})

    @contextmanager
    def opened(self) -> Iterator[httpx.Client]:
        """One that has."""
        with self.browser() as client:
            assert client.get(self.page.link(OWNER)).status_code == 303
            yield client


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    control, listener = FakeControl(tmp_path), bind()
    port = int(listener.getsockname()[1])
    page = Page(control, port=lambda: port)
    (tmp_path / "users").mkdir(mode=0o700)
    users = UserList(tmp_path / "users")
    server = ApiServer(create_app(control, TOKEN, users, page=page), listener)
    server.start()
    yield Served(control, page, port, users)
    page.stop()
    server.stop()
