"""`static/timeline.js`: a job is known by its colour."""

from __future__ import annotations

from playwright.sync_api import Browser

from swell.web.templating import bundle

COLOURS = """(ids) => {
  const { colourNumber, giveColours } = modules["static/timeline.js"];
  giveColours(new Set());
  return ids.map(colourNumber);
}"""


def test_jobs_that_are_shown_have_colours_of_their_own_that_stay(browser: Browser) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.add_script_tag(content=bundle("static/timeline.js"))
        ids = [f"digits-{number}" for number in range(36)]
        colours = page.evaluate(COLOURS, ids)
        assert len(set(colours)) == len(ids)
        assert page.evaluate(COLOURS, ids) == colours, "after a reload"
        assert page.evaluate(COLOURS, ids[:1]) == colours[:1], "whichever others there are"
