"""The view *New job* in a real browser: inputs, the text of a job file and a command that say the same."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from playwright.sync_api import Browser, expect

from swell.api.job_file import PlainLoader
from swell.api.role import Role
from swell.api.user_list import OWNER
from swell.model.job import JobClass
from swell.web.templating import bundle

from .browser import Watched, serious_faults
from .conftest import Served

FILE = """# of last week
script: {script}
name: "digits: new"   # the second
global_batch: 64
epochs: 1.5
or_nothing: true
class: soft
deadline: 2030-01-31T18:00:00
workers: 1:4
args: [--lr, 0.1, "a, b"]
env: {{A: one, B: "2"}}
tags:
  - lr=0.1
  - 'it''s'
note: ~
"""


def read(page: Any, text: str) -> Any:
    return page.evaluate('(text) => modules["static/job_file.js"].parse(text)', text)


def test_a_job_file_means_on_the_page_what_it_means_to_swell_submit(browser: Browser) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.add_script_tag(content=bundle("static/job_file.js"))
        text = FILE.format(script="/home/ada/my train.py")
        meant = yaml.load(text, PlainLoader)  # noqa: S506 - a SafeLoader
        meant.pop("note")
        assert read(page, text) == meant
        written = page.evaluate('(job) => modules["static/job_file.js"].write(job)', meant)
        assert yaml.load(written, PlainLoader) == read(page, written) == meant  # noqa: S506 - a SafeLoader
        for wrong in (
            "script",
            "a: &x 1",
            "a: [1, [2]]",
            "a: |\n  b",
            "a: 1\na: 2",
            "- script: x",
            "a: b: c",
        ):
            with pytest.raises(Exception, match="cannot be read here"):
                read(page, wrong)


@pytest.mark.slow
def test_a_job_is_submitted_by_fields_or_by_a_paste(served: Served, browser: Browser, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('training')\n")
    with browser.new_context() as context:
        watched = Watched(context)
        page = watched.page
        file = page.get_by_role("textbox", name="Job file")
        page.goto(served.page.link(OWNER))
        page.get_by_role("link", name="New job").click()
        page.get_by_label("script").fill(str(script))
        page.get_by_label("global batch").fill("64")
        page.get_by_label("epochs").fill("0")
        page.get_by_label("tags").fill("lr=0.1 first")
        page.get_by_role("button", name="Submit").click()
        expect(page.get_by_role("alert")).to_have_text(
            "epochs: 0 is not above 0 and at most 1,000 billion; choose a number that is"
        )
        page.get_by_label("epochs").fill("3")
        assert shlex.split(page.locator("#command").inner_text()) == [
            *("swell", "submit", "--script", str(script), "--global-batch", "64", "--epochs", "3"),
            *("--tags", "lr=0.1", "--tags", "first", "--workdir", str(tmp_path)),
        ]
        assert serious_faults(page) == []
        page.get_by_role("button", name="Submit").click()
        page.wait_for_url("**/jobs/*")
        (spec,) = served.control.specs.values()
        assert (spec.entry, spec.global_batch, spec.end.epochs) == (str(script), 64, 3.0)
        assert (spec.workdir, spec.tags) == (str(tmp_path), ("lr=0.1", "first"))

        page.goto(f"{served.url}/new")
        file.fill(f"script: {script}\nglobal_batch: 8\nsteps: 5\nclass: best_effort\nname: a: b\n")
        expect(page.get_by_role("alert")).to_contain_text("line 5 cannot be read here")
        page.get_by_role("button", name="Submit").click()
        file.fill(f"script: {script}\nglobal_batch: 8\nsteps: 5\nclass: best_effort\n")
        expect(page.get_by_label("steps")).to_have_value("5")
        page.get_by_role("button", name="Submit").click()
        page.wait_for_url("**/jobs/*")
        *_, spec = served.control.specs.values()
        assert (len(served.control.specs), spec.end.steps, spec.job_class) == (2, 5, JobClass.BEST_EFFORT)
        assert [text for text in watched.complaints if "422" not in text] == []


def test_a_viewer_is_offered_no_new_job(served: Served) -> None:
    with httpx.Client(base_url=served.url, trust_env=False) as client:
        client.get(served.page.link(served.user("ana", Role.VIEW)))
        assert "New job" not in client.get("/").text
        assert "submit none" in client.get("/new").text
