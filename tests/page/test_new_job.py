"""The view *New job* in a real browser: inputs, the text of a job file and a command that say the same."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from playwright.sync_api import Browser, Route, expect

from swell.api.job_file import PlainLoader
from swell.api.role import Role
from swell.api.user_list import OWNER
from swell.web.templating import bundle

from .browser import Watched, serious_faults
from .conftest import Served

FILE = """# of last week
script: /home/ada/my train.py
name: "digits: new"   # the second
global_batch: 64
epochs: 1.5
or_nothing: true
deadline: 2030-01-31T18:00:00
workers: 1:4
args: [--lr, 0.1, "a, b"]
env: {A: one, B: "2"}
tags:
  - lr=0.1
  - 'it''s'
"""
NO_FILES = ("script", "a: &x 1", "a: [1, [2]]", "a: |\n  b", "a: 1\na: 2", "- script: x", "a: b: c")


def test_a_job_file_means_on_the_page_what_it_means_to_swell_submit(browser: Browser) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.add_script_tag(content=bundle("static/job_file.js"))

        def call(name: str, given: Any) -> Any:
            return page.evaluate(f"(given) => {name}(given)", given)

        meant = yaml.load(FILE, PlainLoader)  # noqa: S506 - a SafeLoader
        assert call("parse", FILE) == meant
        assert yaml.load(call("write", meant), PlainLoader) == meant  # noqa: S506 - a SafeLoader
        assert call("parse", call("write", meant)) == meant
        for text in NO_FILES:
            with pytest.raises(Exception, match="cannot be read here"):
                call("parse", text)


@pytest.mark.slow
def test_a_job_is_submitted_by_fields_or_by_a_paste(served: Served, browser: Browser, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('training')\n")
    with browser.new_context() as context:
        watched = Watched(context)
        page = watched.page
        file, submit = page.get_by_role("textbox", name="Job file"), page.get_by_role("button", name="Submit")
        page.goto(served.page.link(OWNER))
        page.get_by_role("link", name="New job").click()
        for field, text in {
            "script": str(script),
            "global batch": "64",
            "epochs": "0",
            "tags": "a b",
        }.items():
            page.get_by_label(field).fill(text)
        submit.click()
        expect(page.get_by_role("alert")).to_contain_text("epochs: 0 is not above 0")
        page.get_by_label("epochs").fill("3")
        assert shlex.split(page.locator("#command").inner_text()) == [
            *("swell", "submit", "--script", str(script), "--global-batch", "64", "--epochs", "3"),
            *("--tags", "a", "--tags", "b", "--workdir", str(tmp_path)),
        ]
        assert serious_faults(page) == []
        submit.click()
        page.wait_for_url("**/jobs/*")
        page.goto(f"{served.url}/new")
        file.fill(f"script: {script}\nglobal_batch: 8\nsteps: 5\nname: a: b\n")
        expect(page.get_by_role("alert")).to_contain_text("line 4 cannot be read here")
        submit.click()
        file.fill(f"script: {script}\nglobal_batch: 8\nsteps: 5\n")
        expect(page.get_by_label("steps")).to_have_value("5")
        submit.click()
        page.wait_for_url("**/jobs/*")
        first, second = served.control.specs.values()
        assert (first.entry, first.workdir, first.end.epochs) == (str(script), str(tmp_path), 3.0)
        assert (first.global_batch, first.tags, second.end.steps) == (64, ("a", "b"), 5)
        assert [text for text in watched.complaints if "422" not in text] == []


@pytest.mark.slow
def test_what_is_typed_before_the_script_has_come_counts(served: Served, browser: Browser) -> None:
    def type_first(route: Route) -> None:
        for field, text in {"script": "/home/ada/train.py", "epochs": "3"}.items():
            page.get_by_label(field).fill(text)
        file.fill("name: digits\nepochs: 5\n")
        page.get_by_label("or nothing").check()
        expect(page.get_by_role("button", name="Submit")).to_be_disabled()
        route.continue_()

    with browser.new_context() as context:
        page = context.new_page()
        file = page.get_by_role("textbox", name="Job file")
        page.goto(served.page.link(OWNER))
        page.route("**/static/new_job.js", type_first)
        page.goto(f"{served.url}/new")
        expect(page.get_by_role("button", name="Submit")).to_be_enabled()
        job = {"name": "digits", "epochs": 3, "script": "/home/ada/train.py", "or_nothing": True}
        assert yaml.safe_load(file.input_value()) == job
        expect(page.get_by_label("name", exact=True)).to_have_value("digits")
        assert "--or-nothing" in page.locator("#command").inner_text()


def test_a_viewer_is_offered_no_new_job(served: Served) -> None:
    with httpx.Client(base_url=served.url, trust_env=False) as client:
        client.get(served.page.link(served.user("ana", Role.VIEW)))
        assert "New job" not in client.get("/").text and "submit none" in client.get("/new").text
