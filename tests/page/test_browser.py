"""The view Now in a real browser, over a fake platform."""

from __future__ import annotations

import re
import time
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Route, expect
from tests.store.views import job_view

from swell.api.page.page import JUST_ENDED_S
from swell.api.user_list import OWNER
from swell.model.booking import Booking
from swell.model.job import JobClass, Phase
from swell.model.quota import TenantDevices
from swell.model.view import JobView, Story

from .browser import Watched, serious_faults
from .conftest import Served

WILD = '<img src=x onerror="document.title=1"><b>'
#: From something that happened to its being on the page, with the time that a busy machine may take.
SOON_MS = 10_000


def a_load(now_s: float) -> list[JobView]:
    """A job of each class, one that ended and one refused."""
    before: dict[str, Any] = {
        "submitted_s": now_s - 100,
        "started_s": now_s - 90,
        "deadline_s": now_s + 100,
        "estimated_finish_s": now_s + 60,
        "sizes": ((now_s - 90, 1), (now_s - 30, 3)),
    }
    ended = before | {"workers": 0, "devices": (), "estimated_finish_s": None, "finished_s": now_s - 5}
    soft = {"job_class": JobClass.SOFT, "is_promised": False}
    free = {"job_class": JobClass.BEST_EFFORT, "is_promised": False, "deadline_s": None}
    refused = {"phase": Phase.REJECTED, "counter_offer_s": now_s + 9, "sizes": ()}
    return [
        job_view(**before | {"id": "strict-1", "name": "promised"}),
        job_view(**before | soft | {"id": "soft-1", "name": WILD}),
        job_view(**before | free | {"id": "free-1", "name": "free"}),
        job_view(**ended | {"id": "done-1", "name": "done", "phase": Phase.SUCCEEDED, "kept": True}),
        job_view(**ended | refused | {"id": "no-1", "name": "no"}),
    ]


def cell(job_id: str, field: str) -> str:
    return f"tr[data-id='{job_id}'] [data-field='{field}']"


@pytest.mark.slow
def test_the_page_shows_what_happens(served: Served, browser: Browser) -> None:
    views = {view.id: view for view in a_load(time.time())}
    for view in views.values():
        served.control.put(view)
    with browser.new_context() as context:
        watched = Watched(context)
        page = watched.page
        page.set_default_timeout(SOON_MS)
        expect.set_options(timeout=SOON_MS)
        page.goto(served.page.link(OWNER))
        assert page.url == f"{served.url}/"
        page.wait_for_selector(".link.live")
        assert page.locator("#jobs tbody tr").count() == len(views)
        expect(page.locator(cell("soft-1", "name"))).to_have_text(WILD)
        expect(page.locator(cell("done-1", "sign"))).to_have_text("kept")
        expect(page.locator(cell("no-1", "offer"))).to_contain_text("offered")

        bar = page.locator("tr[data-id='strict-1'] td.bar .passed")
        expect(bar).to_have_attribute("width", "34")
        served.control.put(msgspec.structs.replace(views["strict-1"], workers=7, steps=680))
        expect(bar).to_have_attribute("width", "68")
        expect(page.locator(cell("strict-1", "size"))).to_have_text("7")
        served.control.put(job_view(id="late-1", name=WILD, submitted_s=time.time()))
        expect(page.locator(cell("late-1", "name"))).to_have_text(WILD)
        served.control.tell("late-1", Story(at_s=time.time(), code="told", text=WILD))
        expect(page.locator("#stories li span").first).to_have_text(WILD)

        swatches = page.locator("#jobs tbody .swatch")
        colours = swatches.evaluate_all("all => all.map((one) => one.style.cssText)")
        page.reload()
        page.wait_for_selector(".link.live")
        assert swatches.evaluate_all("all => all.map((one) => one.style.cssText)") == colours
        assert len(set(colours)) == len(colours) == 6
        assert serious_faults(page) == []
        assert watched.hosts == {f"127.0.0.1:{served.port}"}
        assert watched.complaints == []
        assert page.title() == "Now · Swell"


@pytest.mark.slow
def test_jobs_are_searched_filtered_and_sorted(served: Served, browser: Browser) -> None:
    now_s = time.time()
    for view in a_load(now_s):
        served.control.put(view)
    sweep = {"group": "sweep", "submitted_s": now_s, "deadline_s": None, "job_class": JobClass.SOFT}
    for number, loss in enumerate((0.3, None, 0.1)):
        tags = ("baseline",) if number else ()
        served.control.put(job_view(id=f"run-{number}", name=f"Run{number}", loss=loss, tags=tags, **sweep))
    with browser.new_context() as context:
        watched = Watched(context)
        page = watched.page
        page.goto(served.page.link(OWNER))
        page.wait_for_selector(".link.live")
        rows, found = page.locator("#jobs tbody tr"), page.locator("#found")

        def ids() -> list[str]:
            shown: list[str] = rows.evaluate_all("all => all.map((row) => row.dataset.id)")
            return shown

        page.get_by_label("Search").fill("sweep  BASE")
        expect(rows).to_have_count(2)
        expect(found).to_have_text("2 of 8 jobs")
        served.control.put(job_view(id="run-9", name="Run9", tags=("baseline",), **sweep))
        expect(rows).to_have_count(3)
        page.get_by_label("Search").fill("run")
        page.get_by_role("button", name="Loss").click()
        assert ids() == ["run-2", "run-0", "run-9", "run-1"]
        page.get_by_role("button", name="Loss").press("Enter")
        assert page.get_by_role("columnheader", name="Loss").get_attribute("aria-sort") == "descending"
        assert ids() == ["run-9", "run-0", "run-2", "run-1"]
        served.control.put(job_view(id="run-2", name="Run2", loss=0.9, steps=341, **sweep))
        expect(rows.first).to_have_attribute("data-id", "run-2")
        page.get_by_label("Search").fill("")
        page.get_by_label("Phase").select_option("ended")
        expect(rows).to_have_count(2)
        page.get_by_label("Class").select_option("soft")
        expect(rows).to_have_count(0)
        expect(found).to_have_text("0 of 9 jobs")
        assert serious_faults(page) == []
        assert watched.complaints == []


@pytest.mark.slow
def test_what_is_chosen_before_the_script_has_come_counts(served: Served, browser: Browser) -> None:
    def choose_first(route: Route) -> None:
        page.get_by_label("Search").fill("promised")
        page.get_by_label("Compare promised").check()
        route.continue_()

    for view in a_load(time.time()):
        served.control.put(view)
    with browser.new_context() as context:
        page = context.new_page()
        page.route("**/static/now.js", choose_first)
        page.goto(served.page.link(OWNER))
        expect(page.locator("#found")).to_have_text("1 of 5 jobs")
        page.get_by_role("button", name="Compare 1").click()
        page.wait_for_url("**/compare?job=strict-1")


@pytest.mark.slow
def test_a_search_goes_on_in_jobs_that_the_page_does_not_have(served: Served, browser: Browser) -> None:
    for number in range(1001):
        served.control.put(job_view(id=f"job-{number:04}", submitted_s=time.time() + number))
    with browser.new_context() as context:
        page = Watched(context).page
        page.goto(served.page.link(OWNER))
        page.wait_for_selector(".link.live")
        page.get_by_label("Search").fill("job-1000")
        expect(page.locator("#jobs tbody tr")).to_have_count(0)
        page.get_by_role("button", name="Look at the other jobs, too: 1").click()
        expect(page.locator("#jobs tbody tr")).to_have_count(1)


@pytest.mark.slow
def test_tenants_are_shown_where_one_has_a_quota(served: Served, browser: Browser) -> None:
    """At the width of a phone, in the dark: with long names, and a word for those over their quotas."""
    long = f"{WILD}/{'x' * 60}"
    with browser.new_context(viewport={"width": 360, "height": 740}, color_scheme="dark") as context:
        watched = Watched(context)
        page = watched.page
        expect.set_options(timeout=SOON_MS)
        page.goto(served.page.link(OWNER))
        page.wait_for_selector(".link.live")
        section = page.get_by_role("region", name="Tenants")
        expect(section).to_have_count(0)

        served.control.tenants = {
            ("speech", "a100"): TenantDevices(3, 4),
            (long, "a100"): TenantDevices(5, 2),
        }
        served.control.put(job_view())
        rows = section.get_by_role("row")
        expect(rows).to_have_count(3)
        expect(rows.nth(1)).to_have_text(re.compile(r"^\s*speech\s+3\s+4\s*(beyond its quota)?\s*$"))
        expect(rows.nth(1).get_by_text("beyond its quota")).to_be_hidden()
        expect(rows.nth(2).get_by_role("rowheader")).to_have_text(long)
        expect(rows.nth(2).get_by_text("beyond its quota")).to_be_visible()
        page.reload()
        page.wait_for_selector(".link.live")
        expect(rows).to_have_count(3)
        assert "<img" not in page.request.get(served.url).text()
        widths = page.locator(".use .passed, .use .beyond").evaluate_all(
            "all => all.map((one) => one.getAttribute('width'))"
        )
        assert widths == ["75", "0", "40", "60"]
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert serious_faults(page) == []

        served.control.tenants = {(long, "a100"): TenantDevices(1, 2), (long, "h100"): TenantDevices(0, 2)}
        served.control.put(job_view(workers=1))
        expect(rows.nth(2).get_by_role("rowheader")).to_have_text(f"{long} h100")
        expect(section.get_by_text("beyond its quota").first).to_be_hidden()
        served.control.tenants = {}
        served.control.put(job_view(workers=2))
        expect(section).to_have_count(0)
        assert watched.complaints == []
        assert page.title() == "Now · Swell"


@pytest.mark.slow
def test_bookings_are_listed_and_drawn_ahead_of_now(served: Served, browser: Browser) -> None:
    now_s = served.control.now_s()
    week = tuple((now_s + day * 86400 + 20, now_s + day * 86400 + 3620) for day in (0, 7, 14))
    lesson = Booking(id="b-7f2k", num_devices=4, times_s=week, user=WILD)
    over = Booking(id="b-over", num_devices=1, times_s=((now_s - 9, now_s - 5),))
    node = Booking(id="b-9node", node="node0", times_s=((now_s - 60, now_s + 60),))
    served.control.put(job_view(submitted_s=now_s - 100, sizes=((now_s - 90, 2),), deadline_s=None))
    served.control.booked |= {one.id: one for one in (lesson, over, node)}
    with browser.new_context() as context:
        watched = Watched(context)
        page = watched.page
        expect.set_options(timeout=SOON_MS)
        page.goto(served.page.link(OWNER))
        listed = page.locator("#bookings li")
        expect(listed).to_have_count(2)
        expect(listed.first).to_contain_text(f"b-7f2k 4 devices, for {WILD}: ")
        expect(listed.first).to_contain_text(", and 2 more")
        expect(listed.last).to_contain_text("b-9node node node0, for maintenance: ")
        expect(page.locator("#timeline canvas")).to_have_attribute("aria-label", re.compile("b-9node.* 8"))
        expect(page.locator("#timeline .legend")).to_contain_text("booked")
        del served.control.booked["b-7f2k"]
        expect(listed).to_have_count(1)
        assert serious_faults(page) == [] and watched.complaints == []


def test_now_is_what_runs_waits_or_has_just_ended(served: Served, browser: Browser) -> None:
    now_s = time.time()
    ended: dict[str, Any] = {
        "phase": Phase.SUCCEEDED,
        "kept": True,
        "workers": 0,
        "submitted_s": now_s - 1000,
    }
    served.control.put(job_view(id="open-1", name="open", submitted_s=now_s))
    served.control.put(job_view(id="late-1", name="late", finished_s=now_s - JUST_ENDED_S + 4, **ended))
    served.control.put(job_view(id="old-1", name="old", finished_s=now_s - JUST_ENDED_S - 60, **ended))
    with served.opened() as client:
        first = client.get("/").text.partition("<template")[0]
        assert 'data-id="late-1"' in first and 'data-id="old-1"' not in first
    with browser.new_context() as context:
        page = Watched(context).page
        page.goto(served.page.link(OWNER))
        page.wait_for_selector(".link.live")
        rows = page.locator("#jobs tbody tr")
        expect(rows).to_have_count(1, timeout=SOON_MS)  # the other one has ended too long ago by then
        page.get_by_label("Phase").select_option("any")
        expect(rows).to_have_count(3)
