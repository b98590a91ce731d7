"""The page of a platform whose head decides, served for real, and a browser that has opened it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from swell.api.page.page import Page
from swell.api.server import ApiServer, bind, create_app
from swell.api.user_list import OWNER, Caller
from swell.live.platform import Platform

TOKEN = "t" * 40


class OpenedPage:
    """A page at an address of this machine."""

    def __init__(self, page: Page, port: int) -> None:
        self.page, self.url = page, f"http://127.0.0.1:{port}"

    @contextmanager
    def browser(self, caller: Caller = OWNER) -> Iterator[httpx.Client]:
        """One that has a session, and sends what the page's scripts would."""
        with httpx.Client(base_url=self.url, trust_env=False, timeout=60.0) as client:
            assert client.get(self.page.link(caller)).status_code == 303
            text = client.get("/").text
            csrf = text.partition('name="csrf" content="')[2].partition('"')[0]
            client.headers.update({"Origin": self.url, "X-Swell-CSRF": csrf})
            yield client


@contextmanager
def opened_page(control: Platform) -> Iterator[OpenedPage]:
    """On a port of its own, until the context ends."""
    listener = bind()
    port = int(listener.getsockname()[1])
    page = Page(control, port=lambda: port)
    server = ApiServer(create_app(control, TOKEN, page=page), listener)
    server.start()
    try:
        yield OpenedPage(page, port)
    finally:
        page.stop()
        server.stop()
