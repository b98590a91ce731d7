"""What-if and submission by mouse and by keyboard, in a real browser, on a head that decides."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from tests.api.stage import Stage, on_stage
from tests.api.test_what_if import ONE
from tests.page.browser import Watched, serious_faults
from tests.page.opened_page import OpenedPage, opened_page

from swell.api.caller import OWNER

#: A process starts and computes, on a machine that may be busy.
ANSWER_MS = 60_000


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    script = tmp_path / "train.py"
    script.write_text("print('one step')\n")
    with on_stage(tmp_path / "state") as stage:
        stage.run(script, **ONE)
        yield stage


@pytest.fixture
def page(stage: Stage) -> Iterator[OpenedPage]:
    with opened_page(stage.platform, stage.folder.path) as page:
        yield page


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


@pytest.mark.slow
def test_a_forecast_and_a_submission_by_mouse(
    browser: Browser, stage: Stage, page: OpenedPage, tmp_path: Path
) -> None:
    watched = Watched(browser.new_context(viewport={"width": 360, "height": 800}))
    seen = watched.page
    seen.goto(page.page.link(OWNER))
    seen.get_by_role("link", name="What if").click()
    seen.get_by_label("Nodes to add").fill("1")
    seen.get_by_label("Read from a file").set_input_files(
        {
            "name": "jobs.yaml",
            "mimeType": "text/yaml",
            "buffer": b"script: train.py\nglobal_batch: 8\nsteps: 100\nname: mouse\ndeadline: now+1h\n",
        }
    )
    seen.get_by_role("button", name="Submit this job").click()
    expect(seen.get_by_role("alert")).to_contain_text("/jobs.yaml", timeout=ANSWER_MS)
    assert [job.name for job in stage.client.jobs()] == ["train"], "its script is not in that folder"
    seen.get_by_label("Folder of the file").fill(str(tmp_path))
    seen.get_by_role("button", name="Forecast").click()
    row = seen.locator(".forecast tbody tr", has_text="mouse")
    expect(row.locator(".difference")).to_have_text("promised", timeout=ANSWER_MS)
    expect(seen.get_by_role("alert")).to_be_hidden()
    expect(seen.locator(".same-by code")).to_contain_text("swell what-if --add-nodes 1 --submit jobs.yaml")
    assert [job.name for job in stage.client.jobs()] == ["train"]
    assert serious_faults(seen) == []
    width = seen.evaluate("document.documentElement.scrollWidth")
    assert width == 360, "nothing is wider than the page"
    seen.get_by_role("button", name="Submit this job").click()
    expect(seen.locator("#answer li")).to_contain_text("promised for", timeout=ANSWER_MS)
    assert [job.name for job in stage.client.jobs()] == ["train", "mouse"]
    assert all("422" in text for text in watched.complaints), "the refused file, and nothing else"
    assert watched.hosts == {page.url.removeprefix("http://")}


@pytest.mark.slow
def test_a_forecast_and_a_submission_by_keyboard(
    browser: Browser, stage: Stage, page: OpenedPage, tmp_path: Path
) -> None:
    watched = Watched(browser.new_context(color_scheme="dark"))
    seen = watched.page
    seen.goto(page.page.link(OWNER))
    seen.goto(f"{page.url}/submit")
    seen.locator("#script").focus()
    for words in (str(tmp_path / "train.py"), "keys", "8", "100"):
        seen.keyboard.type(words)
        press(seen, "Tab")
    press(seen, "s", "Tab")  # the unit: steps
    seen.keyboard.type("now+1h")
    expect(seen.locator("#text")).to_have_value(
        f"script: {tmp_path}/train.py\nname: keys\nglobal_batch: 8\nsteps: 100\ndeadline: now+1h\n"
    )
    press(seen, "Enter")
    row = seen.locator(".forecast tbody tr", has_text="keys")
    expect(row.locator(".difference")).to_have_text("promised", timeout=ANSWER_MS)
    assert serious_faults(seen) == []
    seen.get_by_role("button", name="Forecast").focus()
    press(seen, "Tab", "Enter")
    expect(seen.locator("#answer li a")).to_have_attribute(
        "href", re.compile("^/jobs/keys-"), timeout=ANSWER_MS
    )
    expect(seen.locator("#answer li")).to_contain_text("promised for", timeout=ANSWER_MS)
    assert [job.name for job in stage.client.jobs()] == ["train", "keys"]
    assert watched.complaints == []


@pytest.mark.slow
def test_a_submission_that_broke_off_is_taken_up_and_nothing_is_submitted_twice(
    browser: Browser, stage: Stage, page: OpenedPage, tmp_path: Path
) -> None:
    watched = Watched(browser.new_context())
    seen, asked = watched.page, list[str]()
    seen.goto(page.page.link(OWNER))
    seen.goto(f"{page.url}/submit")
    known = f"script: {tmp_path}/train.py, global_batch: 8, steps: 100"
    seen.locator("#text").fill("".join(f"- {{{known}, name: {name}}}\n" for name in ("one", "two", "three")))

    def break_off_once(route: Route) -> None:
        asked.append(json.loads(route.request.post_data or "")["name"])
        if asked == ["one", "two"]:
            route.abort()
        else:
            route.continue_()

    seen.route("**/v1/jobs", break_off_once)
    submit = seen.get_by_role("button", name="Submit this job")
    submit.click()
    expect(seen.get_by_role("alert")).to_be_visible(timeout=ANSWER_MS)
    submit.click()
    expect(seen.locator("#answer li")).to_have_count(3, timeout=ANSWER_MS)
    assert asked == ["one", "two", "one", "two", "three"]
    assert sorted(job.name for job in stage.client.jobs()) == ["one", "three", "train", "two"]
    expect(seen.locator(".same-by code")).to_have_text(f"swell submit job.yaml --state {stage.folder.path}")
    for place in range(3):
        expect(seen.locator("#answer li").nth(place)).not_to_contain_text("submitted", timeout=ANSWER_MS)
    seen.context.close()
