"""`static/format.js`: a time that is typed means what it means where the browser is."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from swell.web.templating import bundle


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("2030-01-31T18:00", "2030-01-31T23:00:00.000Z"),
        ("2030-07-31 8:30:05", "2030-07-31T12:30:05.000Z"),
        ("now+3m", "now+3m"),
        ("18:00", "2030-01-31T23:00:00.000Z"),
        ("at 7:30", "2030-02-01T12:30:00.000Z"),
        ("tomorrow 7:30", "2030-02-01T12:30:00.000Z"),
        ("2030-01-31T18:00:00+01:00", "2030-01-31T18:00:00+01:00"),
        ("2030-01-31T25:00", "2030-01-31T25:00"),
        ("soon", "soon"),
    ],
)
def test_a_time_is_sent_with_its_offset(browser: Browser, text: str, sent: str) -> None:
    with browser.new_context(timezone_id="America/New_York") as context:
        page = context.new_page()
        page.clock.set_fixed_time("2030-01-31T17:00:00Z")
        page.add_script_tag(content=bundle("static/format.js"))
        assert page.evaluate("(text) => withOffset(text)", text) == sent
