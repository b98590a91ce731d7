"""Ended jobs on the page: all that match, each once; names are text; bad filters are named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, expect
from tests.api.fake_control import FakeControl
from tests.page.browser import Watched, serious_faults
from tests.page.conftest import Served
from tests.store.views import job_view

from swell.api.page.history_page import HOUR_S, MOST_PERIODS, filled, query_of
from swell.api.user_list import OWNER
from swell.model.job import JobClass, Phase
from swell.model.job_sums import JobHistory, OutcomePeriod, OutcomeSums

ENDS = [phase for phase in Phase if phase.is_end]
MARKUP = "<img src=x onerror=alert(1)>\"'&"
DAY_S = 86400.0


@pytest.fixture
def control(served: Served) -> FakeControl:
    control = served.control
    control.put(job_view())  # is open, and no part of the history
    for number in range(130):
        at_s = 1_800_000_000.0 + number // 2 * 0.1 * DAY_S
        control.put(
            job_view(
                id=f"job-{number:03d}",
                name=("digits", "train", "digits-2")[number % 3],
                tenant=("", "ada")[number % 2],
                phase=ENDS[number % len(ENDS)],
                job_class=list(JobClass)[number % 3],
                is_promised=number % 3 == 0,
                kept=(True, False, None)[number % 5 % 3],
                submitted_s=at_s,
                finished_s=at_s + 600.0,
            )
        )
    return control


@pytest.fixture
def client(served: Served, control: FakeControl) -> Iterator[httpx.Client]:
    with served.opened() as client:
        yield client


def ids(text: str) -> list[str]:
    return re.findall(r'<tr data-id="([^"]*)"', text)


def older(text: str) -> str | None:
    found = re.search(r'<a href="([^"]*)" rel="next">', text)
    return None if found is None else found[1].replace("&amp;", "&")


def test_the_pages_together_are_the_jobs_that_match_each_once(
    client: httpx.Client, control: FakeControl
) -> None:
    @settings(max_examples=12, deadline=None)
    @given(
        st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["d", "digits-2", "nothing"]),
                "phase": st.sampled_from([str(phase) for phase in ENDS]),
                "class": st.sampled_from([str(one) for one in JobClass]),
                "tenant": st.just("ada"),
                "promise": st.sampled_from(["kept", "missed", "other-kept", "other-missed"]),
                "from": st.sampled_from(["2027-01-16", "2027-01-18"]),
                "to": st.sampled_from(["2027-01-17", "2027-01-19"]),
            },
        )
    )
    def hold(words: dict[str, str]) -> None:
        found: list[str] = []
        address: str | None = str(httpx.URL("/history", params=words))
        while address is not None:
            answer = client.get(address)
            assert answer.status_code == 200
            found += ids(answer.text)
            address = older(answer.text)
        query = query_of(words)
        assert found == [view.id for view in reversed(control.jobs(query))]

    hold()
    assert len(ids(client.get("/history").text)) == 50


def test_markup_in_a_name_is_text(client: httpx.Client, control: FakeControl) -> None:
    late = {"submitted_s": 1_900_000_000.0, "finished_s": 1_900_000_001.0}
    control.put(job_view(id=f"{MARKUP}-1", name=MARKUP, tenant=MARKUP, phase=Phase.FAILED, **late))
    for address in ("/history", str(httpx.URL("/history", params={"name": MARKUP, "tenant": MARKUP}))):
        text = client.get(address).text
        assert "<img src=x" not in text
        assert unquote(re.findall(r'href="/jobs/([^"]*)"', text)[0]) == f"{MARKUP}-1"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"phase": "asleep"}, "phase: 'asleep' is not known; choose from"),
        ({"phase": "running"}, "phase: 'running' is not known"),
        ({"class": "royal"}, "class: 'royal' is not known; choose from strict, soft, best_effort"),
        ({"promise": "x"}, "promise: 'x' is not known"),
        ({"from": "yesterday"}, "from: 'yesterday' is no day; write it as 2030-01-31"),
        ({"to": "9999-12-31"}, "to: '9999-12-31' is no day"),
        ({"by": "century"}, "by: 'century' is not known; choose from hour, day, week"),
        ({"before": "gone"}, "no job has the id 'gone'"),
    ],
)
def test_a_filter_that_cannot_be_is_named(client: httpx.Client, words: dict[str, str], told: str) -> None:
    answer = client.get("/history", params=words)
    assert answer.status_code == 422
    assert told in answer.text.replace("&#39;", "'")
    assert 'name="from"' in answer.text, "the form is there to be corrected"


def test_periods_add_up_to_the_total_and_stand_in_a_table(client: httpx.Client) -> None:
    text = client.get("/history", params={"by": "week"}).text.partition("</table>")[0]
    days = re.findall(r'<tr><th scope="row">(2027-\d\d-\d\d)</th><td class="number">(\d+)</td>', text)
    assert sum(int(number) for _, number in days) == 130
    assert [day for day, _ in days] == ["2027-01-11", "2027-01-18"], "weeks begin on Mondays"


@given(st.sets(st.integers(0, 20_000), max_size=2000), st.integers(0, 9000))
def test_charts_have_the_newest_periods_and_never_more_than_some(scattered: set[int], dense: int) -> None:
    """Each once and in order; and none is left out that is later than one which is shown."""
    numbers = sorted(scattered | set(range(dense)))
    ended = tuple(OutcomePeriod(begin_s=n * HOUR_S, outcome=OutcomeSums(num_jobs=1)) for n in numbers)
    shown = filled(JobHistory(period_s=HOUR_S, periods=ended))
    begins = [period.begin_s for period in shown]
    assert len(shown) <= MOST_PERIODS and begins == sorted(set(begins))
    assert [period for period in shown if period.outcome.num_jobs] == [
        period for period in ended if period.begin_s >= begins[0]
    ]
    if shown:
        assert shown[-1] == ended[-1]


@pytest.mark.slow
def test_in_a_browser_charts_are_drawn_and_a_filter_is_set_by_keyboard(
    served: Served, control: FakeControl, browser: Browser
) -> None:
    watched = Watched(browser.new_context(viewport={"width": 360, "height": 800}))
    seen = watched.page
    seen.goto(served.page.link(OWNER))
    seen.get_by_role("link", name="History").first.click()
    expect(seen.locator(".curves-plot canvas")).to_have_count(3)
    assert serious_faults(seen) == []
    assert seen.evaluate("document.documentElement.scrollWidth") == 360
    seen.get_by_label("Name begins with").focus()
    seen.keyboard.type("digits-2")
    seen.keyboard.press("Enter")
    expect(seen.locator(".ended tbody tr")).to_have_count(43)
    assert watched.complaints == []
    assert watched.hosts == {served.url.removeprefix("http://")}
