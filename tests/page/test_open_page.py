"""What the scripts of a page that stays open do, in a real browser, over a fake platform."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
import pytest
from playwright.sync_api import Browser, Page, Request, Route, expect
from tests.store.views import job_view

from swell import __version__
from swell.api.user_list import OWNER
from swell.model.job import Phase
from swell.model.view import BorrowedNodes

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
    """Not opened yet; it has complained of nothing but refused requests when the test ends."""
    with browser.new_context() as context:
        watched = Watched(context)
        watched.page.set_default_timeout(SOON_MS)
        expect.set_options(timeout=SOON_MS)
        yield watched.page
        assert [text for text in watched.complaints if "Failed to load resource" not in text] == []


def open_now(served: Served, page: Page) -> None:
    page.goto(served.page.link(OWNER))
    page.wait_for_selector(".link.live")


@pytest.mark.slow
def test_a_page_that_is_not_seen_asks_nothing_and_goes_on_when_it_is(served: Served, page: Page) -> None:
    served.control.put(job_view(id="job-1", name="before", submitted_s=time.time()))
    waiting: set[Request] = set()
    page.on("request", lambda request: waiting.add(request))
    page.on("requestfinished", lambda request: waiting.discard(request))
    page.on("requestfailed", lambda request: waiting.discard(request))
    open_now(served, page)
    page.wait_for_event("request", lambda request: "/v1/changes" in request.url)
    page.evaluate(SHOWN, False)
    while waiting:
        page.wait_for_timeout(20)
    served.control.put(job_view(id="job-2", name="meanwhile", submitted_s=time.time()))
    page.wait_for_timeout(3000)  # longer than a page that is seen rests
    assert not waiting
    expect(page.locator("tr[data-id='job-2']")).to_have_count(0)
    page.evaluate(SHOWN, True)
    expect(page.locator("tr[data-id='job-2'] [data-field='name']")).to_have_text("meanwhile")
    expect(page.locator(".link")).to_have_text("live")


@pytest.mark.slow
def test_more_jobs_come_until_none_is_left_out(
    served: Served, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swell.api.page.changes.MOST_JOBS", 300)
    now_s = time.time()
    for number in range(650):
        served.control.put(job_view(id=f"job-{number:04}", submitted_s=now_s - number))
    open_now(served, page)
    rows, more = page.locator("#jobs tbody tr"), page.locator("#more")
    for number in range(650, 670):  # they come first in the table
        served.control.put(job_view(id=f"job-{number:04}", submitted_s=now_s - number))
    for number in range(620, 650):  # they go to its end, and others to places that were asked for before
        ended = job_view(
            id=f"job-{number:04}",
            submitted_s=now_s - number,
            phase=Phase.SUCCEEDED,
            workers=0,
            finished_s=now_s,
        )
        served.control.put(ended)
    expect(page.locator("tr[data-id='job-0649']")).to_have_count(0)
    expect(more).to_have_text("Show more: 470 jobs are left out")
    page.route("**/page/jobs?*", lambda route: route.abort())
    more.click()
    expect(more).to_have_text("Show more: the platform did not answer, try again")
    page.unroute("**/page/jobs?*")
    for num_left in (150, 10):
        more.click()
        expect(more).to_have_text(f"Show more: {num_left} jobs are left out")
    more.click()
    expect(more).to_be_hidden()
    expect(rows).to_have_count(670)


@pytest.mark.slow
def test_a_link_keeps_the_focus_when_other_jobs_end_and_a_warning_is_put_there_once(
    served: Served, page: Page
) -> None:
    now_s = time.time()
    views = [job_view(id=f"job-{number}", submitted_s=now_s + number) for number in range(4)]
    for view in views:
        served.control.put(view)
    served.control.warnings = {"disk": "it is full"}
    open_now(served, page)
    link = page.locator("tr[data-id='job-2'] a")
    link.focus()
    page.evaluate("""() => {
        window.told = [];
        document.activeElement.addEventListener("blur", () => told.push("blurred"));
        const warnings = document.getElementById("warnings");
        new MutationObserver(() => told.push("warned")).observe(warnings, { childList: true });
    }""")
    for number in (0, 2):  # one before it, and its own
        ended = {"phase": Phase.SUCCEEDED, "finished_s": now_s - number, "workers": 0}
        served.control.put(msgspec.structs.replace(views[number], **ended))
        expect(page.locator(f"tr[data-id='job-{number}'] [data-field=phase_word]")).to_have_text("succeeded")
    expect(page.locator("[data-fact=devices]")).to_have_text("2 of 8 devices in use")
    expect(page.locator("[data-fact=given-back]")).to_have_text("")
    served.control.borrowed = BorrowedNodes(num_there=0, num_given_back=1, lent_s=60.0)
    served.control.put(job_view(id="job-new", submitted_s=now_s - 9))
    expect(page.locator("[data-fact=given-back]")).to_have_text("1 borrowed node given back")
    expect(page.locator("#jobs tbody th")).to_have_count(5)
    order = page.locator("#jobs tbody tr").evaluate_all("rows => rows.map((row) => row.dataset.id)")
    assert order == ["job-new", "job-1", "job-3", "job-0", "job-2"]
    expect(link).to_be_focused()
    assert page.evaluate("told") == []


def test_a_page_of_another_version_is_loaded_again_once(served: Served, page: Page) -> None:
    """The platform of the test tells another version than its page has, however often that is loaded."""
    asked: list[str] = []

    def answer_page(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(
            response=answer, body=answer.text().replace(f'"version":"{__version__}"', '"version":"1"')
        )

    def answer_changes(route: Route) -> None:
        asked.append(route.request.url)
        told = msgspec.structs.replace(served.page.changes.shown(), version="2")
        route.fulfill(content_type="application/json", body=msgspec.json.encode(told))

    loads: list[str] = []
    page.on("load", lambda loaded: loads.append(loaded.url))
    open_now(served, page)
    page.route(f"{served.url}/", answer_page)
    page.route("**/v1/changes?*", answer_changes)
    page.reload()
    while len(asked) < 4:
        page.wait_for_timeout(20)
    assert len(loads) == 3, "the first one, that of the test and that of the script"
