"""A real Chromium, where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Error, Page, sync_playwright

#: Names under which distributions have it. Playwright's own comes last.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Skips the test if there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except Error as error:
            pytest.skip(f"there is no Chromium here: {error.message.splitlines()[0]}")
        yield browser
        browser.close()


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
