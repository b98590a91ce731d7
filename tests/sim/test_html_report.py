"""A report holds what the table says, shows names as text, and asks for nothing."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from swell.cli import main

MARKUP = "<img src=http://evil.test/x onerror=alert(1)></script><!--"
#: One is refused, one is named as no job should be, and users are asked for too.
TRACE = f"""\
submit_s,id,num_devices,duration_s,deadline_s,user
0,early,4,3600,9000,ann
600,hopeless,4,3600,700,ann
700,"{MARKUP}",8,7200,40000,"{MARKUP}"
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    (folder / "log.csv").write_text(TRACE)
    file, figures = folder / "out.html", folder / "out.json"
    words = [folder / "log.csv", "--cluster", "1x8", "--profiles", "law", "--policy", "elasticflow,fifo"]
    assert main.run(["simulate", *map(str, words), "--html", str(file), "--json", str(figures)]) == 0
    return file


def _data(report: Path) -> dict[str, Any]:
    text = report.read_text()
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


class References(HTMLParser):
    """Addresses in attributes that a browser would fetch or go to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {"src", "href", "action", "data", "srcset", "poster"}
        self.found += [value or "" for name, value in attrs if name in names]


def test_the_data_has_the_figures_of_json_and_the_table_tells_them(report: Path) -> None:
    data = _data(report)
    assert data["results"] == json.loads((report.parent / "out.json").read_text())
    text = report.read_text()
    cells = [f"{one['metrics']['admitted_late']:,}" for one in data["results"]]
    assert re.findall(r'data-column="LATE">([^<]*)</td>', text) == cells


def test_a_file_refers_to_nothing_outside_itself(report: Path) -> None:
    parser = References()
    parser.feed(report.read_text())
    assert parser.found == ["data:,"]
    assert "@import" not in report.read_text() and "url(" not in report.read_text()


def test_a_refused_job_has_its_offer(report: Path) -> None:
    data = _data(report)
    runs = {run["policy"]: run for run in data["runs"]}
    place = data["jobs"]["id"].index("hopeless")
    assert runs["elasticflow"]["is_refused"] == [job == place for job in range(3)]
    assert runs["elasticflow"]["offer_s"][place] > 700
    assert not any(runs["fifo"]["is_refused"])


def test_the_same_command_writes_the_same_bytes_and_names_itself(
    report: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = report.read_bytes()
    words = ["simulate", str(report.parent / "log.csv"), "--cluster", "1x8", "--profiles", "law"]
    words += [
        "--policy",
        "elasticflow,fifo",
        "--html",
        str(report),
        "--json",
        str(report.parent / "out.json"),
    ]
    assert main.run(words) == 0
    assert report.read_bytes() == before
    assert f"swell {' '.join(words)}" in before.decode()


@pytest.fixture
def opened(report: Path, browser: Browser) -> Page:
    """In a browser with all that it asked for and complained about in `page.asked`, `page.errors`."""
    page = browser.new_page()
    page.goto(report.as_uri())
    page.wait_for_selector("#jobs table")
    return page


@pytest.mark.slow
def test_a_report_opens_without_a_request_or_an_error_and_names_stay_text(
    report: Path, browser: Browser
) -> None:
    page = browser.new_page()
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    page.goto(report.as_uri())
    page.wait_for_selector("#jobs table")
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    assert errors == []
    assert MARKUP in page.locator("#jobs").inner_text()
    assert page.locator("img").count() == 0
    assert Axe().run(page).response["violations"] == []
    assert page.locator(".curves canvas").count() >= 2
    page.close()


@pytest.mark.slow
def test_a_policy_is_chosen_for_timeline_and_jobs_and_jobs_are_searched_for(opened: Page) -> None:
    refused = opened.locator("#refused tbody tr")
    assert refused.count() == 1 and "hopeless" in refused.inner_text()
    assert "0" in opened.locator("td.best[data-column=LATE]").inner_text()
    opened.get_by_role("radio", name="fifo").check()
    assert refused.count() == 0
    jobs = opened.locator("#jobs tbody tr")
    assert jobs.count() == 3
    opened.locator("#jobs").get_by_role("searchbox").fill("EARLY")
    assert jobs.count() == 1
    opened.locator("#jobs").get_by_role("searchbox").fill("")
    opened.locator("#jobs").get_by_label("outcome").select_option("late")
    assert "hopeless" in jobs.inner_text()
    opened.close()


def test_a_folder_that_is_not_there_is_named_before_the_simulation(
    report: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = report.parent / "missing" / "out.html"
    words = ["simulate", str(report.parent / "log.csv"), "--cluster", "1x8", "--html", str(file)]
    assert main.run(words) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"swell: --html: there is no folder {file.parent}") and "POLICY" not in told


def test_broken_promises_come_first_and_invented_deadlines_are_said(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("submit_s,id,num_devices,duration_s\n0,early,4,3600\n600,late,4,3600\n")
    words = ["simulate", str(log), "--cluster", "1x8", "--profiles", "law", "--policy", "elasticflow,fifo"]
    assert main.run([*words, "--html", str(tmp_path / "out.html")]) == 0
    text = (tmp_path / "out.html").read_text()
    headings = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', text)
    assert headings[:3] == ["policy", "late though admitted", "deadlines met"]
    assert '<p class="invented">' in text and "invented deadlines: 2 jobs: deadline = submission" in text
