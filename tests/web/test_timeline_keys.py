"""`static/timeline.js`: what its keys show, which keys stay the browser's, and colours of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from swell.web.templating import bundle

#: Shows 1,000 s, and keeps whether the page took the last key.
SHOW = """() => {
    const place = document.body.appendChild(document.createElement("div"));
    const data = { start_s: 0, end_s: 1000, capacity: [[0, 8]], jobs: [] };
    window.chart = timeline(place, data);
    document.addEventListener("keydown", (event) => { window.isTaken = event.defaultPrevented; });
    place.querySelector("canvas").focus();
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    found = browser.new_page()
    found.add_script_tag(content=bundle("static/timeline.js"))
    found.evaluate(SHOW)
    yield found
    found.close()


def _span(page: Page, *keys: str) -> Any:
    for key in keys:
        page.keyboard.press(key)
    return page.evaluate("chart.span")


def test_arrows_move_what_is_shown_and_stop_at_the_ends(page: Page) -> None:
    assert _span(page, "ArrowLeft") == [0, 1000] == _span(page, "ArrowRight")
    begin_s, end_s = _span(page, "+")
    assert (begin_s, end_s) == (200, 800)
    assert _span(page, "ArrowRight") == [320, 920]
    assert _span(page, "ArrowRight", "ArrowRight") == [400, 1000]
    assert _span(page, "ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowLeft") == [0, 600]
    assert _span(page, "-") == [0, 840]
    assert _span(page, "-") == [0, 1000]


def test_two_seconds_are_the_closest_look(page: Page) -> None:
    begin_s, end_s = _span(page, *["+", "ArrowRight"] * 20)
    assert end_s - begin_s == pytest.approx(2)
    assert _span(page, "Escape") == [0, 1000]


@pytest.mark.parametrize("key", ["Control++", "Control+-", "Control+0", "Alt+ArrowLeft", "Meta+ArrowRight"])
def test_keys_of_the_browser_stay_its_own(page: Page, key: str) -> None:
    before = _span(page, "+")
    assert page.evaluate("isTaken")
    assert _span(page, key) == before
    assert not page.evaluate("isTaken")


def test_jobs_that_are_shown_have_colours_of_their_own_that_stay(page: Page) -> None:
    def colours(ids: list[str]) -> Any:
        return page.evaluate("(ids) => (giveColours(new Set()), ids.map(colourNumber))", ids)

    ids = [f"digits-{number}" for number in range(36)]
    assert len(set(colours(ids))) == len(ids)
    assert len({number % 12 for number in colours(ids[:12])}) == 12, "hues that are told apart"
    assert colours(ids[:1]) == colours(ids)[:1]
