"""Sessions of the page belong to the user who made the link, and end with that user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.api.fake_control import FakeControl
from tests.store.views import job_view

from swell.api.page.page import Page
from swell.api.role import Role
from swell.api.server import ApiServer, bind, create_app
from swell.api.user_list import UserList

TOKEN = "t" * 40
PATIENCE_S = 30.0


class PageSite:
    """A server with a page."""

    def __init__(self, root: Path) -> None:
        self.control = FakeControl(root / "logs")
        self.control.put(job_view(id="own-1", tenant="vision"))
        self.users = UserList(root)
        self.page = Page(self.control, port=lambda: self.server.port)
        self.server = ApiServer(create_app(self.control, TOKEN, page=self.page, users=self.users), bind())
        self.server.start()

    @contextmanager
    def browser(self, token: str) -> Iterator[httpx.Client]:
        """One that has opened the link which the owner of the token has made."""
        address = f"http://127.0.0.1:{self.server.port}"
        link = httpx.post(
            f"{address}/v1/page", headers={"Authorization": f"Bearer {token}"}, trust_env=False
        ).json()["url"]
        with httpx.Client(
            base_url=address, headers={"Origin": address}, timeout=PATIENCE_S, trust_env=False
        ) as browser:
            assert browser.get(link).status_code == 303
            yield browser


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PageSite]:
    site = PageSite(tmp_path)
    yield site
    site.page.stop()
    site.server.stop()


def test_a_session_may_what_its_user_may(site: PageSite) -> None:
    with site.browser(site.users.add("ana", Role.VIEW)) as browser:
        assert browser.get("/").status_code == 200
        assert browser.get("/v1/jobs").status_code == 200
        assert browser.get("/v1/head").status_code == 403
    with site.browser(TOKEN) as browser:
        assert browser.get("/v1/head").status_code == 200


def test_a_session_ends_with_its_user_and_the_owners_goes_on(site: PageSite) -> None:
    with site.browser(site.users.add("ana", Role.VIEW)) as browser, site.browser(TOKEN) as owner:
        site.users.remove("ana")
        assert {browser.get(path).status_code for path in ("/", "/v1/jobs", "/v1/changes")} == {401}
        site.users.add("ana", Role.OPERATE)
        assert browser.get("/v1/jobs").status_code == 401
        assert owner.get("/v1/jobs").status_code == 200
