"""Lengths of time as people say them, here and in the browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page

from swell.model.quantities import relative, span
from swell.web.templating import bundle

DAY_S = 86_400
SAID = {
    0.0: "0 s",
    0.004: "4 ms",
    0.21: "0.21 s",
    2.3: "2.3 s",
    9.97: "10 s",
    41.2: "41 s",
    200.0: "3 min 20 s",
    300.0: "5 min",
    705.0: "12 min",
    3600.0: "1 h",
    10_315.0: "2 h 52 min",
    DAY_S - 1.0: "1 day",
    DAY_S + 7_200.0: "1 day 2 h",
    9.2 * DAY_S: "9 days 5 h",
    100 * DAY_S: "100 days",
    2522.5 * DAY_S: "7 years",
}
_UNITS_S = {"ms": 1e-3, "s": 1, "min": 60, "h": 3600, "day": DAY_S, "days": DAY_S, "years": 365.25 * DAY_S}


@pytest.mark.parametrize(("seconds", "said"), SAID.items())
def test_a_length_is_said_as_people_say_it(seconds: float, said: str) -> None:
    assert span(seconds) == said == span(-seconds)


@given(st.floats(0.0, 3e9))
@example(59.99 * 60)
def test_what_is_said_is_true_to_a_twentieth(seconds: float) -> None:
    parts = re.findall(r"([\d.,]+) (\w+)", span(seconds))
    assert len(parts) <= 2
    told_s = sum(float(number.replace(",", "")) * _UNITS_S[unit] for number, unit in parts)
    assert told_s == pytest.approx(seconds, rel=0.05 if seconds < 2 * 365 * DAY_S else 0.25, abs=5e-4)


@pytest.mark.parametrize(("seconds", "said"), [(0.0, "now"), (41.0, "in 41 s"), (-720.0, "12 min ago")])
def test_a_distance_from_now(seconds: float, said: str) -> None:
    assert relative(seconds) == said


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    found = browser.new_page()
    found.add_script_tag(content=bundle("static/format.js"))
    yield found
    found.close()


def test_the_browser_says_the_same(page: Page) -> None:
    lengths = [*SAID, *(1.13**power for power in range(-80, 180))]
    told = page.evaluate("all => all.map(span)", lengths)
    assert dict(zip(lengths, told, strict=True)) == {length: span(length) for length in lengths}
    assert page.evaluate("[0, 41, -720].map(relative)") == [
        "now",
        "in 41 s",
        "12 min ago",
    ]
