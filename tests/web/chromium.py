"""A real Chromium, where this machine has one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

#: Names under which distributions install it. `SWELL_CHROMIUM` names another.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """Its program: one named by `SWELL_CHROMIUM`, one on the path, or the one that Playwright installed."""
    named = os.environ.get("SWELL_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is not None:
        return found
    with sync_playwright() as play:
        program = play.chromium.executable_path
    return program if Path(program).exists() else None


def why_no_chromium() -> str | None:
    """None where there is one."""
    if find_chromium() is not None:
        return None
    return "no Chromium; install the package chromium, or run `playwright install chromium-headless-shell`"


def wait_until(page: Page, condition: str) -> None:
    """Until this expression is true. Playwright's own way evaluates texts, which our policies forbid."""
    while not page.evaluate(condition):
        page.wait_for_timeout(10)


@contextmanager
def chromium() -> Iterator[Browser]:
    """One that ends with the context. As root it runs without its sandbox, which root may not use."""
    with sync_playwright() as play:
        args = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = play.chromium.launch(executable_path=find_chromium(), args=args)
        try:
            yield browser
        finally:
            browser.close()
