"""The demo's jobs while their page is open in a real browser. Minutes long: `make test-soak`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page
from tests.platform.test_demo import LIMIT_S, check_jobs

from swell.api.client import Client, connect
from swell.api.words import ENDS, NOTHING, SIGNS, standing
from swell.model.view import JobView

from .browser import Watched, serious_faults

DEVICES = ("--devices", "paced:1x8@100", "--preload", "sklearn.datasets")
#: An event is on the page within a second; the machine that looks is busy with the demo's workers.
SHOWN_WITHIN_S = 3.0
NUM_LOOKS = 10
#: Between two looks, of a demo of some 100 s.
LOOK_EVERY_S = 8.0

#: What the table says of each job, as a browser has it.
ROWS = """() => Object.fromEntries([...document.querySelectorAll("#jobs tbody tr")].map((row) => {
  const text = (name) => row.querySelector(`[data-field=${name}]`).textContent.trim();
  return [row.dataset.id, [text("name"), text("phase_word"), text("size"), text("sign")]];
}))"""


def told(views: list[JobView]) -> dict[str, list[str]]:
    """The same of what the API says."""
    return {
        view.id: [
            view.name,
            "" if standing(view, time.time()) in ENDS.values() else str(view.phase),
            str(view.workers) if view.workers else NOTHING,
            SIGNS[standing(view, time.time())],
        ]
        for view in views
    }


def swell(state: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "swell.cli.main", *words, "--state", str(state)]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True)


@contextmanager
def a_platform(state: Path, devices: Sequence[str] = DEVICES) -> Iterator[Client]:
    swell(state, "up", *devices)
    try:
        with connect(state) as client:
            yield client
    finally:
        swell(state, "down", "--force")


def agreement_s(page: Page, client: Client) -> float:
    """How long it takes until the page shows what the API says at one moment."""
    begun_s = time.monotonic()
    while True:
        before, rows, after = told(client.jobs()), page.evaluate(ROWS), told(client.jobs())
        if rows in (before, after):
            return time.monotonic() - begun_s
        assert time.monotonic() - begun_s < SHOWN_WITHIN_S, {"shown": rows, "told": after}


@pytest.mark.soak
@pytest.mark.timeout(LIMIT_S + 120)
def test_the_page_shows_the_demo_as_it_is(tmp_path: Path, browser: Browser) -> None:
    state, found = tmp_path / "state", tmp_path / "demo.json"
    with a_platform(state) as client:
        context = browser.new_context(viewport={"width": 1180, "height": 860})
        watched = Watched(context)
        page = watched.page
        page.goto(client.page().url)
        page.wait_for_selector(".link.live")
        command = [sys.executable, "-P", "-m", "swell.cli.main", "demo", "--state", str(state)]
        demo = subprocess.Popen(
            [*command, "--json", str(found), "--out", str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        try:
            delays_s = list(_looks(page, client, demo))
            printed, _ = demo.communicate(timeout=LIMIT_S)
        finally:
            demo.kill()
        assert demo.returncode == 0, printed
        assert len(delays_s) >= NUM_LOOKS
        agreement_s(page, client)
        listed = json.loads(swell(state, "jobs", "--json").stdout)
        assert {job["id"] for job in listed} == set(page.evaluate(ROWS))
        assert serious_faults(page) == []
        _look_at_a_job(page, listed)
        assert watched.complaints == []
        assert watched.hosts == {page.url.split("/")[2]}
    check_jobs(json.loads(found.read_text())["jobs"])
    sys.stderr.write(f"the page was behind the API by {sorted(round(s, 2) for s in delays_s)} s\n")


def _looks(page: Page, client: Client, demo: subprocess.Popen[str]) -> Iterator[float]:
    """Delays, at moments that are spread over the demo."""
    while demo.poll() is None:
        yield agreement_s(page, client)
        page.wait_for_timeout(LOOK_EVERY_S * 1000)


def _look_at_a_job(page: Page, listed: list[dict[str, Any]]) -> None:
    """The one that was resized most often."""
    job = max(listed, key=lambda one: one["resizes"])
    page.locator(f"tr[data-id='{job['id']}'] a[data-field=name]").click()
    page.wait_for_selector("canvas")
    assert job["name"] in page.title()
    assert serious_faults(page) == []
