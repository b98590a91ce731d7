"""The page of a job in a real browser, over a fake platform: what is seen, read and done there."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect
from tests.store.views import job_view

from swell.api.user_list import OWNER, ApiUser
from swell.model.job import Phase
from swell.model.view import JobView, Story
from swell.script_facts import ScriptFinding
from swell.store.curves import CurvePoint
from swell.tally import tally_of

from .browser import Watched, serious_faults
from .conftest import Served

WILD = '<img src=x onerror="document.title=1"><b>'
#: From something that happened to its being on the page, with the time that a busy machine may take.
SOON_MS = 15_000
#: Pixels of the first chart that are not as empty ones are.
DRAWN = """() => {
    const canvas = document.querySelector("figure canvas");
    if (canvas === null) return 0;
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return pixels.filter((value, at) => at % 4 === 3 && value > 0).length;
}"""

LEAST_PIXELS = 500


def a_job(**changes: Any) -> JobView:
    """One that has a minute to spare."""
    now_s = time.time()
    times: dict[str, Any] = {
        "submitted_s": now_s - 100,
        "started_s": now_s - 90,
        "deadline_s": now_s + 120,
        "estimated_finish_s": now_s + 60,
        "sizes": ((now_s - 90, 1), (now_s - 45, 2)),
    }
    return job_view(**times | changes)


def a_curve(values: list[float], first_step: int = 1) -> list[CurvePoint]:
    """A point a step, the last one now."""
    now_s, points = time.time(), []
    for step, value in enumerate(values, first_step):
        tally = tally_of([(step, value)], num_workers=2)
        assert tally is not None
        points.append(CurvePoint(now_s - 90 * (1 - step / (first_step + len(values))), 1, step, tally))
    return points


@dataclass
class Opened:
    """The page of a job."""

    served: Served
    watched: Watched

    @property
    def page(self) -> Page:
        return self.watched.page

    def end(self) -> None:
        """It has complained of nothing but refusals that it shows, and has asked nobody else."""
        self.page.context.close()
        assert [text for text in self.watched.complaints if "status of 422" not in text] == []
        assert self.watched.hosts == {f"127.0.0.1:{self.served.port}"}

    def job(self) -> JobView:
        return self.served.control.job("digits-1")

    def write_log(self, text: str) -> None:
        folder = self.served.control.folder / "digits-1"
        folder.mkdir(exist_ok=True)
        with (folder / "worker-0.log").open("a") as log:
            log.write(text)


def await_drawn(page: Page) -> None:
    """Not by `wait_for_function`: the page's policy lets nobody evaluate text in it."""
    give_up_s = time.monotonic() + SOON_MS / 1000
    while page.evaluate(DRAWN) < LEAST_PIXELS:
        assert time.monotonic() < give_up_s, "the first chart stays empty"
        page.wait_for_timeout(50)


def open_job(served: Served, browser: Browser, caller: ApiUser = OWNER, **options: Any) -> Opened:
    opened = Opened(served, Watched(browser.new_context(**options)))
    page = opened.page
    page.set_default_timeout(SOON_MS)
    expect.set_options(timeout=SOON_MS)
    page.goto(served.page.link(caller))
    page.goto(f"{served.url}/jobs/digits-1")
    page.wait_for_selector(".link.live")
    return opened


@pytest.fixture
def opened(served: Served, browser: Browser) -> Iterator[Opened]:
    served.control.curves = {"loss": a_curve([2.0, 1.0, float("nan"), 0.5, 0.25]), WILD: a_curve([1.0, 2.0])}
    served.control.put(a_job(name=WILD, loss=0.375))
    found = open_job(served, browser)
    yield found
    found.end()


@pytest.mark.slow
def test_curves_are_drawn_and_go_on(opened: Opened) -> None:
    page, control = opened.page, opened.served.control
    page.wait_for_selector("figure canvas")
    await_drawn(page)
    legend = page.locator(".curves-legend button:has(svg)")
    expect(legend.first).to_have_text("loss0.375")  # as the first lines say, which is no point of the curve
    expect(legend.nth(1)).to_have_text(f"{WILD}2")
    expect(page.locator("figcaption").first).to_have_text("1 value was NaN or infinite")
    control.curves["loss"] = [*control.curves["loss"], *a_curve([0.125], 6)]
    control.put(a_job(name=WILD, steps=341, loss=0.1875))
    expect(page.locator("[data-field=loss]")).to_have_text("0.1875")
    expect(legend.first).to_have_text("loss0.1875")
    page.get_by_label("by time").check()
    expect(page.locator(".curves-plot").first).to_have_attribute("aria-label", re.compile("^loss by time"))
    await_drawn(page)
    assert serious_faults(page) == []


def test_a_job_is_cancelled_by_keyboard(opened: Opened) -> None:
    page = opened.page
    page.get_by_role("button", name="Cancel…").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Back")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#do-cancel")).to_be_hidden()
    expect(page.get_by_role("button", name="Cancel…")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Cancel the job")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("[data-field=phase]")).to_have_text("cancelled")
    assert opened.job().phase is Phase.CANCELLED


def test_another_deadline_is_asked_for_and_a_refusal_is_said(opened: Opened) -> None:
    page, before_s = opened.page, opened.job().deadline_s
    page.get_by_role("button", name="Change deadline…").click()
    entry, error = page.locator("#do-promise input"), page.locator("#do-promise .error")
    for given, told in (
        ("soon", "deadline"),
        ("now+5s", "refused: 8 devices cannot finish it so soon; it could"),
    ):
        entry.fill(given)
        entry.press("Enter")
        expect(error).to_contain_text(told)
        assert opened.job().deadline_s == before_s
    expect(page.locator("#promise")).to_contain_text("Another deadline was refused: 8 devices")
    entry.fill("now+1h; ls")
    expect(page.locator("#do-promise .command")).to_contain_text("--deadline 'now+1h; ls'")
    entry.fill("now+1h")
    page.get_by_role("button", name="Ask for it").click()
    expect(page.locator("#do-promise")).to_be_hidden()
    expect(page.locator("[data-field=deadline-in]")).to_have_text("in 1 h")
    assert (opened.job().deadline_s or 0) > time.time() + 3000


@pytest.mark.parametrize(
    ("asked", "opens", "does"),
    [
        pytest.param({}, "Retry…", "Retry", id="an ended one"),
        pytest.param(
            {"deadline": "now+5s", "or_nothing": True},
            "Submit again with the offer…",
            "Submit again",
            id="a refused one, with what was offered",
        ),
    ],
)
def test_a_job_is_submitted_again(
    served: Served, browser: Browser, asked: dict[str, Any], opens: Any, does: str
) -> None:
    spec = {"name": "digits", "script": __file__, "workdir": "/", "global_batch": 64, "steps": 10, **asked}
    with served.opened() as client:
        headers = {"Authorization": f"Bearer {'t' * 40}"}
        job_id = client.post("/v1/jobs", json=spec, headers=headers).json()["id"]
    view = served.control.job(job_id)
    if asked:
        assert view.phase is Phase.REJECTED
    else:
        ended = {"phase": Phase.FAILED, "finished_s": time.time(), "message": "oh"}
        served.control.put(msgspec.structs.replace(view, **ended))
    page = browser.new_context().new_page()
    page.set_default_timeout(SOON_MS)
    page.goto(served.page.link(OWNER))
    page.goto(f"{served.url}/jobs/{job_id}")
    page.get_by_role("button", name=opens).click()
    page.get_by_role("button", name=does, exact=True).click()
    page.wait_for_url("**/jobs/digits-0001")
    again = served.control.job("digits-0001")
    assert again.phase is Phase.RUNNING and again.is_promised >= bool(asked)
    page.context.close()


@pytest.mark.slow
@pytest.mark.parametrize("printed", ["one epoch\n", ""])
def test_a_refused_job_shows_its_trial_run_and_no_time_to_come(
    served: Served, browser: Browser, printed: str
) -> None:
    now_s = time.time()
    refused = {"phase": Phase.REJECTED, "started_s": None, "finished_s": now_s - 5, "submitted_s": now_s - 9}
    served.control.put(
        a_job(
            **refused, counter_offer_s=now_s + 50.5, deadline_s=now_s + 180, workers=0, loss=None, metrics={}
        )
    )
    folder = served.control.folder / "digits-1"
    folder.mkdir()
    (folder / "trial-0.log").write_text(printed)
    opened = open_job(served, browser)
    page = opened.page
    expect(page.locator("#whose")).to_have_value("trial")
    expect(page.locator("#log")).to_have_text(printed)
    expect(page.locator("#log-note")).to_have_text("" if printed else "nothing was printed in its trial run")
    expect(page.locator("#why")).to_contain_text("The earliest deadline that could be promised then: ")
    for title in ("Promise", "Metrics", "Changes of size", "Throughput"):
        expect(page.get_by_role("heading", name=title)).to_have_count(0)
    expect(page.locator("[data-field=deadline]")).not_to_be_empty()
    expect(page.locator("[data-field=deadline-in]")).to_be_empty()
    opened.end()


@pytest.mark.slow
def test_the_log_follows_and_stays_text(opened: Opened) -> None:
    page, log = opened.page, opened.page.locator("#log")
    opened.write_log(f"\x1b[32m{WILD}\x1b[0m\n10%\r100%\n")
    expect(log).to_have_text(f"{WILD}\n100%\n")
    opened.write_log("".join(f"line {number}\n" for number in range(5000)) + "the end")
    expect(log).to_contain_text("line 4999")
    assert log.inner_text().count("\n") <= 2000
    assert log.evaluate("log => log.scrollTop + log.clientHeight > log.scrollHeight - 40")
    log.evaluate("log => { log.scrollTop = 0; }")
    expect(page.locator("#follow")).not_to_be_checked()
    opened.write_log("\nmore\n")
    expect(log).to_contain_text("the end\nmore")
    assert log.evaluate("log => log.scrollTop") < 1000
    page.locator("#whose").select_option("trial")
    expect(log).to_have_text("")


def test_a_job_that_ends_is_said_to_have_ended(opened: Opened) -> None:
    page, control = opened.page, opened.served.control
    control.tell("digits-1", Story(at_s=time.time(), code="warned", text=WILD))
    opened.write_log("almost\nlast words")
    control.put(
        a_job(name=WILD, phase=Phase.SUCCEEDED, finished_s=time.time(), kept=True, workers=0, steps=1000)
    )
    expect(page.locator("[data-field=outcome]")).to_have_text("The job has ended: succeeded.")
    expect(page.locator("[data-field=sign]")).to_have_text("kept")
    expect(page.locator("#promise")).to_contain_text("The promise was kept")
    expect(page.locator("#actions button")).to_have_count(0)
    expect(page.locator("#log")).to_contain_text("last words")
    assert page.title() == f"{WILD} · succeeded · Swell"


def test_a_job_is_held_and_resumed_and_its_priority_changed(opened: Opened) -> None:
    page = opened.page
    page.get_by_role("button", name="Hold…").click()
    page.get_by_role("button", name="Hold the job").click()
    expect(page.get_by_role("button", name="Resume…")).to_be_visible()
    assert opened.job().is_held
    page.get_by_role("button", name="Resume…").click()
    page.get_by_role("button", name="Resume the job").click()
    expect(page.get_by_role("button", name="Hold…")).to_be_visible()
    assert not opened.job().is_held
    page.get_by_role("button", name="Prioritize…").click()
    entry = page.locator("#do-prioritize input")
    expect(entry).to_have_value("0")
    entry.fill("7")
    expect(page.locator("#do-prioritize .command")).to_have_text(
        re.compile(r"prioritize digits-1 .*--priority 7")
    )
    entry.press("Enter")
    expect(page.locator("#do-prioritize")).to_be_hidden()
    assert opened.job().priority == 7


def test_what_a_trial_run_has_found_is_accepted(served: Served, browser: Browser) -> None:
    found = ScriptFinding(name="random-draws", text="numbers are drawn", place="train.py:7", holds=True)
    served.control.put(a_job(findings=(found,), held_by=("random-draws",)))
    opened = open_job(served, browser)
    page = opened.page
    expect(page.locator("#why .warning")).to_contain_text("limited to 1 worker, random-draws")
    page.get_by_role("button", name="Accept differences…").click()
    command = page.locator("#do-accept .command")
    expect(command).to_have_text(re.compile("accept-differences digits-1 random-draws --state"))
    page.get_by_role("button", name="Accept them").click()
    expect(page.get_by_role("button", name="Accept differences…")).to_have_count(0)
    expect(page.locator("#why .warning")).to_have_count(0)
    assert opened.job().held_by == ()
    opened.end()
