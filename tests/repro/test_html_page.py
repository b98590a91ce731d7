"""A report of findings: all of their figures, in one file that asks for nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.repro import tiny

from swell_papers.elasticflow import PAPER
from swell_papers.experiment import Context, Paper
from swell_papers.findings import Findings
from swell_papers.html_page import write_paper
from swell_papers.tables import cells

pytestmark = pytest.mark.slow

MARKUP = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiny")


@pytest.fixture(scope="module")
def found(folder: Path) -> tuple[Paper, list[Findings]]:
    one = tiny.experiment(tiny.COMPARED, tiny.line("fifo"), num_cases=2)
    other = tiny.experiment(tiny.line("elasticflow"), name="2", picture="time")
    paper = replace(PAPER, title=f"A paper {MARKUP}", introduction="Read *this*.", experiments=(one, other))
    context = Context(data=tiny.write(folder))
    return paper, [experiment.run(context) for experiment in paper.experiments]


@pytest.fixture(scope="module")
def report(folder: Path, found: tuple[Paper, list[Findings]]) -> Path:
    file = folder / "out.html"
    write_paper(file, *found, "swell repro tiny --html out.html")
    return file


def test_it_has_every_cell_of_every_table_and_every_value_of_every_chart(
    report: Path, found: tuple[Paper, list[Findings]]
) -> None:
    text = report.read_text()
    parsed = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert parsed is not None
    charts = json.loads(parsed[1])["charts"]
    for findings, drawn in zip(found[1], charts[1:], strict=True):  # after those of the summary
        for table in findings.tables:
            assert all(f">{cell}</td>" in text for row in cells(table) for cell in row)
        for chart, one in zip(findings.charts, drawn, strict=True):
            series = [list(each.values) for panel in chart.panels for each in panel.series]
            assert [each["values"] for panel in one["panels"] for each in panel["series"]] == series
    assert "swell repro tiny --html out.html" in text and "<em>this</em>" in text
    assert MARKUP not in text


def test_it_opens_without_a_request_or_an_error(report: Path, browser: Browser) -> None:
    page = browser.new_page()
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.goto(report.as_uri())
    page.wait_for_selector(".curves canvas")
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    assert errors == []
    assert page.locator("h1").inner_text() == f"A paper {MARKUP}"
    page.close()
