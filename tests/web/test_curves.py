"""`static/curves.js` in a real browser, which asks for nothing but our files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route
from tests.web.chromium import wait_until

from swell.web.templating import UPLOT_SCRIPT, UPLOT_STYLE, read_asset

HOST = "http://swell.test/"
HTML = f"""<!doctype html><title>t</title>
<link rel="stylesheet" href="/{UPLOT_STYLE}"><link rel="stylesheet" href="/static/curves.css">
<body><div id="chart"></div><script src="/{UPLOT_SCRIPT}"></script></body>"""
DRAW = """async (data) => {
    const { curves } = await import("/static/curves.js");
    window.chart = curves(document.getElementById("chart"), data);
}"""
LOSSES: dict[str, Any] = {
    "x": [0, 1, 2, 3],
    "xLabel": "step",
    "series": [
        {"label": "loss", "values": [8.0, 4.0, None, 1.0], "low": [7, 3, None, 1], "high": [9, 5, None, 1]},
        {"label": "<b>other</b>", "values": [1.0, 0.0, -2.0, 0.5], "unit": "s"},
    ],
    "marks": [{"x": 1, "label": "4 to 8 workers"}],
    "log": False,
}


def _serve(route: Route) -> None:
    name = route.request.url.removeprefix(HOST)
    if not name:
        policy = {"Content-Security-Policy": "default-src 'self'"}
        route.fulfill(body=HTML, content_type="text/html", headers=policy)
    else:
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        route.fulfill(body=read_asset(name), content_type=kind)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    found = browser.new_page(viewport={"width": 800, "height": 600})
    errors: list[str] = []
    found.on("pageerror", lambda error: errors.append(str(error)))
    found.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    found.route("**/*", _serve)
    found.goto(HOST)
    yield found
    assert errors == []
    found.close()


def _legend(page: Page) -> list[str]:
    return [" ".join(text.split()) for text in page.locator(".curves-legend button").all_inner_texts()]


def test_a_legend_has_the_last_values_and_names_stay_text(page: Page) -> None:
    page.evaluate(DRAW, LOSSES)
    assert _legend(page) == ["loss 1", "<b>other</b> 0.5 s", "log scale"]


def test_the_keyboard_reads_values_with_their_ranges_and_marks(page: Page) -> None:
    page.evaluate(DRAW, LOSSES)
    page.locator(".curves-plot").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    said = page.locator(".curves-said").inner_text()
    assert said == "1; loss 4 (3 to 5); <b>other</b> 0 s; 4 to 8 workers"


def test_a_log_scale_says_what_it_leaves_out(page: Page) -> None:
    page.evaluate(DRAW, LOSSES)
    page.get_by_role("button", name="log scale").click()
    assert page.evaluate("chart.u.scales.y.distr") == 3
    assert page.evaluate("chart.u.data[4]") == [1.0, None, None, 0.5]
    assert "not shown, as not above 0: 2" in page.locator(".curves-legend").inner_text()


def test_a_zoom_stays_when_values_are_added(page: Page) -> None:
    page.evaluate(DRAW, LOSSES)
    page.locator(".curves-plot").focus()
    page.keyboard.press("Home")
    page.keyboard.press("+")
    zoomed = page.evaluate("({...chart.range})")
    assert zoomed["max"] < 3
    page.evaluate("data => chart.update(data)", LOSSES | {"marks": []})
    assert page.evaluate("({...chart.range})") == zoomed
    page.keyboard.press("Escape")
    wait_until(page, "chart.range.max === 3")


def test_no_data_is_an_empty_chart(page: Page) -> None:
    page.evaluate(DRAW, {"x": [], "series": [{"label": "a", "values": []}], "log": True})
    assert _legend(page) == ["a", "log scale"]
    page.locator(".curves-plot").press("ArrowRight")
