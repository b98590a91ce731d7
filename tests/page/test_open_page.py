"""What the scripts of a page that stays open do, in a real browser, over a fake platform."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.live.test_platform import until
from tests.store.views import job_view

from swell.api.caller import OWNER

from .browser import Watched
from .conftest import Served

#: From something that happened to its being on the page, with the time that a busy machine may take.
SOON_MS = 15_000
#: Whether a browser without a screen shows a page: what is asked of the document, and the event that tells.
SHOWN = """isShown => {
    Object.defineProperty(document, "hidden", { value: !isShown, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture
def page(served: Served, browser: Browser) -> Iterator[Page]:
    """Not opened yet; it has complained of nothing when the test ends."""
    with browser.new_context() as context:
        watched = Watched(context)
        watched.page.set_default_timeout(SOON_MS)
        expect.set_options(timeout=SOON_MS)
        yield watched.page
        assert watched.complaints == []


def open_now(served: Served, page: Page) -> None:
    page.goto(served.page.link(OWNER))
    page.wait_for_selector(".link.live")


def test_a_page_that_is_not_seen_holds_no_connection_and_goes_on_when_it_is(
    served: Served, page: Page
) -> None:
    served.control.put(job_view(id="job-1", name="before", submitted_s=time.time()))
    open_now(served, page)
    ring = served.page.feed.ring
    until(lambda: ring.has_readers)
    page.evaluate(SHOWN, False)
    until(lambda: not ring.has_readers)
    served.control.put(job_view(id="job-2", name="meanwhile", submitted_s=time.time()))
    page.evaluate(SHOWN, True)
    expect(page.locator("tr[data-id='job-2'] [data-field='name']")).to_have_text("meanwhile")
    expect(page.locator(".link")).to_have_text("live")
