"""A page in a real browser: what it complains about, and what keeps people from using it."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page


class Watched:
    """A page of which is kept what it complains about, and whom it talks to."""

    def __init__(self, context: BrowserContext) -> None:
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        context.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))
        self.page: Page = context.new_page()
        self.page.on("console", lambda message: self._hear(message.type, message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)


def serious_faults(page: Page) -> list[str]:
    """What axe finds that keeps people from using the page."""
    found = Axe().run(page).response["violations"]
    serious = [fault for fault in found if fault["impact"] in ("serious", "critical")]
    return [f"{fault['id']}: {fault['nodes'][0]['html']}" for fault in serious]
