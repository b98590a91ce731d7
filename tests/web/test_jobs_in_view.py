"""`static/jobs_in_view.js`: what a timeline shows of many jobs is what they held."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from swell.web.templating import bundle


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    found = browser.new_page()
    found.add_script_tag(content=bundle("static/jobs_in_view.js"))
    yield found
    found.close()


def _shown(page: Page, jobs: list[dict[str, Any]], span: tuple[float, float], devices: int) -> Any:
    call = "([jobs, span, devices]) => jobsInView(jobs, span, devices)"
    return page.evaluate(call, [jobs, span, devices])


def _job(name: str, *flat: float, cls: str = "strict") -> dict[str, Any]:
    marks = {"deadline_s": 1.0, "finished_s": 2.0, "expected_s": None, "submitted_s": 0.0, "state": "kept"}
    return {"id": name, "name": name, "cls": cls, "flat": list(flat)} | marks


def test_few_jobs_are_shown_as_they_are(page: Page) -> None:
    (one,) = _shown(page, [_job("a", 0, 10, 4, 10, 30, 2), _job("b", 50, 60, 8)], (0, 40), 8)
    assert one["name"] == "a" and one["deadline_s"] == 1.0
    assert one["segments"] == [[0, 10, 4], [10, 30, 2]]


def test_of_many_jobs_the_largest_stay_and_the_others_are_one_for_each_class(page: Page) -> None:
    small = [_job(f"s{at}", at, at + 100, 1, cls="soft" if at % 2 else "strict") for at in range(1000)]
    shown = _shown(page, [*small, _job("large", 0, 1100, 500)], (0, 1100), 600)
    assert [one["name"] for one in shown] == ["large", "500 smaller strict jobs", "500 smaller soft jobs"]
    assert all(one["deadline_s"] is None for one in shown)
    device_s = sum((to - since) * held for one in shown[1:] for since, to, held in one["segments"])
    assert device_s == pytest.approx(1000 * 100, rel=0.01)


def test_jobs_that_take_turns_never_overlap(page: Page) -> None:
    jobs = [_job(f"j{at}", at / 7, (at + 1) / 7, 8) for at in range(700)]
    shown = _shown(page, jobs, (0, 100), 8)
    pieces = sorted(tuple(piece) for one in shown for piece in one["segments"])
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(pieces))
