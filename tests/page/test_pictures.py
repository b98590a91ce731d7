"""The pictures of the page in the docs, of a real run. Minutes long: `make test-soak`.

SWELL_PICTURES=docs/images draws them again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from swell.api.client import Client, connect
from swell.model.job import Phase
from swell.model.view import JobView

from .browser import Watched, serious_faults

LIMIT_S = 300
DEVICES = ("--devices", "paced:1x6@250", "--preload", "sklearn.datasets")

SCRIPT = """
import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from swell import train

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.003)
parser.add_argument("--hidden", type=int, default=64)
options = parser.parse_args()

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
loader = DataLoader(TensorDataset(x[:1400], y[:1400]), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(64, options.hidden), nn.ReLU(), nn.Linear(options.hidden, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
run = train.elastic(model, optimizer, loader, epochs=100)
for epoch in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a), b)
        run.backward(loss)
        run.step()
    with torch.no_grad():
        accuracy = (model(x[1400:]).argmax(1) == y[1400:]).float().mean()
    run.report(accuracy=accuracy.item())
    print(f"epoch {epoch}: accuracy {accuracy:.3f}", flush=True)
"""

FIRST = """
- name: draft
  script: train.py
  global_batch: 64
  epochs: 3
  deadline: now+2m
  workers: 2
- name: night
  script: train.py
  args: [--lr, 0.003, --hidden, 96]
  global_batch: 128
  epochs: 90
  deadline: now+12m
  workers: "1:2"
- name: review
  script: train.py
  global_batch: 64
  epochs: 40
  deadline: now+5m
  class: soft
  workers: 1
- name: lr
  script: train.py
  args: [--lr, "{lr}", --hidden, 64]
  global_batch: 64
  epochs: 14
  workers: 1
  class: best_effort
  sweep:
    lr: [0.1, 0.01, 0.001]
"""
RUSH = "{name: rush, script: train.py, global_batch: 64, epochs: 90, deadline: now+20s, or_nothing: true}"


def swell(state: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "swell.cli.main", *words, "--state", str(state)]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True)


@contextmanager
def a_platform(state: Path) -> Iterator[Client]:
    swell(state, "up", *DEVICES)
    try:
        with connect(state) as client:
            yield client
    finally:
        swell(state, "down", "--force")


class Drawn:
    """Draws pictures of a page, if they are wanted."""

    def __init__(self, page: Page) -> None:
        self._page, self._folder = page, os.environ.get("SWELL_PICTURES")

    def take(self, name: str, first: str = "main", last: str = "", scheme: str = "light") -> None:
        """From the top of one element to the foot of another, or of the same."""
        page = self._page
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(300)
        boxes = [page.locator(one).first.bounding_box() for one in (first, last or first)]
        assert boxes[0] is not None and boxes[1] is not None
        top, end = boxes[0]["y"], boxes[1]["y"] + boxes[1]["height"]
        if self._folder:
            clip = {"x": 0.0, "y": max(0.0, top - 8), "width": 1180.0, "height": end - top + 16}
            file = Path(self._folder) / f"{name}.png"
            page.screenshot(path=file, clip=clip, full_page=True)  # type: ignore[arg-type]
            Image.open(file).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(file, optimize=True)
        page.emulate_media(color_scheme="light")


def newest(client: Client, name: str) -> JobView:
    return next(view for view in reversed(client.jobs()) if view.name == name)


def await_jobs(client: Client, is_so: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + LIMIT_S / 2
    while not is_so():
        assert time.monotonic() < give_up_s, [(view.name, view.phase, view.message) for view in client.jobs()]
        time.sleep(0.5)


@pytest.mark.soak
@pytest.mark.timeout(LIMIT_S)
def test_each_view_shows_what_its_picture_is_for(browser: Browser) -> None:
    with tempfile.TemporaryDirectory(prefix="ada-") as folder:  # pictures show this path, which is short
        _look_at_each_view(Path(folder), browser)


def _look_at_each_view(folder: Path, browser: Browser) -> None:
    state = folder / "state"
    for name, text in (("train.py", SCRIPT), ("first.yaml", FIRST), ("rush.yaml", RUSH)):
        (folder / name).write_text(text)
    with a_platform(state) as client, browser.new_context() as context:
        watched = Watched(context)
        page, drawn = watched.page, Drawn(watched.page)
        page.set_viewport_size({"width": 1180, "height": 860})
        page.goto(client.page().url)
        url = page.url.rstrip("/")
        swell(state, "submit", str(folder / "first.yaml"), "--no-wait")
        await_jobs(client, lambda: newest(client, "draft").phase is Phase.SUCCEEDED)
        swell(state, "submit", str(folder / "rush.yaml"), "--no-wait")
        await_jobs(client, lambda: newest(client, "rush").phase is Phase.REJECTED)
        await_jobs(client, lambda: all(newest(client, f"lr-{n}").steps > 100 for n in (1, 2, 3)))
        page.reload()
        page.wait_for_selector(".link.live")
        page.wait_for_timeout(1500)
        drawn.take("page-now", ".top", "section[aria-labelledby=jobs-title]")
        drawn.take("page-now-dark", ".top", "section[aria-labelledby=jobs-title]", "dark")
        _search(page)
        _compare(page, drawn)
        _job(page, drawn, f"{url}/jobs/{newest(client, 'night').id}")
        _refused(page, drawn, f"{url}/jobs/{newest(client, 'rush').id}")
        page.goto(f"{url}/history")
        page.wait_for_selector(".curves-plot canvas")
        drawn.take(
            "page-history", "section[aria-labelledby=history-title]", "section[aria-labelledby=jobs-title]"
        )
        assert serious_faults(page) == []
        assert watched.complaints == []


def _search(page: Page) -> None:
    """Jobs of a sweep, the least loss first."""
    page.get_by_label("Search").fill("lr")
    page.get_by_role("button", name="Loss").click()
    expect(page.locator("#jobs tbody tr")).to_have_count(3)
    for box in page.locator("#jobs tbody input").all():
        box.check()
    assert serious_faults(page) == []


def _compare(page: Page, drawn: Drawn) -> None:
    page.get_by_role("button", name="Compare 3").click()
    page.wait_for_selector(".curves-plot canvas")
    drawn.take(
        "page-compare", "section[aria-labelledby=compare-title]", "section[aria-labelledby=table-title]"
    )
    assert serious_faults(page) == []


def _job(page: Page, drawn: Drawn, address: str) -> None:
    """Its first lines and its curves, and a download."""
    page.goto(address)
    page.wait_for_selector("figure canvas")
    page.get_by_role("link", name="Download the checkpoint").first.wait_for()
    page.wait_for_timeout(1500)
    drawn.take("page-job", ".job-head", "section[aria-labelledby=curves-title]")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download the checkpoint").first.click()
    assert waiting.value.suggested_filename.endswith(".pt")
    assert serious_faults(page) == []


def _refused(page: Page, drawn: Drawn, address: str) -> None:
    page.goto(address)
    expect(page.locator("#log")).to_contain_text("epoch 0")
    drawn.take("page-refused", ".job-head", "section[aria-labelledby=story-title]")
    assert serious_faults(page) == []
