"""The form of a new job, filled in with the submission of another one, without its secrets."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, expect

from swell.api.caller import OWNER, Role
from swell.api.job_file import load
from swell.api.page.cloned_job import job_file
from swell.api.submission import Submission
from swell.model.event import JobSubmitted
from swell.model.job import JobSpec, Origin

from .browser import Watched, serious_faults
from .conftest import TOKEN, Served
from .test_job_browser import SOON_MS
from .test_job_page import WILD, opened_by

NOW_S = 1_800_000_000.0
HOME = str(Path(__file__).parent)
PLAIN: dict[str, Any] = {"script": __file__, "workdir": HOME, "global_batch": 64, "steps": 10}
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


def again(
    submission: Submission, now_s: float = NOW_S, origin: Origin | None = None
) -> tuple[JobSpec, JobSpec]:
    """The request, and that of the job file which is made of it."""
    spec = submission.to_spec(NOW_S)
    submitted = JobSubmitted(job_id="a-1", at_s=NOW_S, spec=spec, origin=origin or Origin())
    (job,) = load(Path("/job.yaml"), job_file(submitted, now_s))
    return spec, job.to_spec(now_s)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "args": st.lists(
                TEXTS | st.sampled_from(["--lr", "0.1", "null", "~", "é😀\x85", "\"'#: "]), max_size=4
            ),
            "workers": st.sampled_from([2, "1:8", "4:"]),
            "batch": st.just("32:512"),
            "until": st.sampled_from(["loss<=0.123456789", "accuracy>=0.97"]),
            "metric": st.just("accuracy"),
            "seed": st.integers(0, 2**63 - 1),
            "deadline": st.floats(NOW_S + 1, NOW_S + 1e6).map(int),
            "or_soft": st.just(True),
            "tenant": st.just("vision/3"),
            "priority": st.integers(-1000, 1000),
            "weight": st.floats(1e-6, 1e6),
            "group": st.just("g"),
            "tags": st.just(["lr=0.1", "baseline"]),
            "memory": st.just("4GiB"),
            "needs": st.just(["/data/x y"]),
            "kind": st.just("cuda:NVIDIA H200"),
            "stop_on_nan": st.just(True),
            "resize_up_s": st.floats(0.0, 1e6),
            "resize_down_s": st.floats(0.0, 1e6),
            "on_drift": st.just("fail"),
            "accept_differences": st.just(["weighted-mean"]),
        },
    )
)
def test_the_job_file_of_a_job_asks_for_the_same(fields: dict[str, Any]) -> None:
    if "deadline" not in fields:
        fields.pop("or_soft", None)
    spec, other = again(msgspec.convert(PLAIN | fields, Submission))
    assert msgspec.structs.replace(other, code=spec.code) == spec


def test_a_deadline_that_was_given_as_a_length_counts_again() -> None:
    submission = msgspec.convert(PLAIN | {"deadline": "now+10m", "accept_until": "now+20m"}, Submission)
    _, other = again(submission, NOW_S + 5000, Origin(deadline_in_s=600.0))
    assert other.deadline_s == NOW_S + 5600 and other.accept_until_s == NOW_S + 6200


def test_what_may_be_secret_or_has_passed_is_left_out_and_said() -> None:
    fields = {"env": {"KEY": "s3cret"}, "webhook": "https://example.org/t0ken", "deadline": NOW_S + 10}
    fields["after"] = "prepare-1"
    spec = msgspec.convert(PLAIN | fields, Submission).to_spec(NOW_S)
    text = job_file(JobSubmitted(job_id="a-1", at_s=NOW_S, spec=spec), NOW_S + 60)
    assert "s3cret" not in text and "t0ken" not in text and '{"KEY": null}' in text
    assert [line[:20] for line in text.splitlines()[:4]] == [
        "# values of environm",
        "# it came after othe",
        "# its webhook is not",
        "# its deadline has p",
    ]


def submitted(served: Served, **fields: Any) -> str:
    with served.browser() as client:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        told = client.post("/v1/jobs", json=PLAIN | fields, headers=headers)
    job_id: str = told.json()["id"]
    return job_id


def test_who_may_cancel_a_job_may_clone_it(served: Served) -> None:
    job_id = submitted(served, tenant="vision", args=[WILD])
    callers = {
        OWNER: 200,
        served.user("ada", Role.SUBMIT, "vision"): 200,
        served.user("bob", Role.SUBMIT, "speech"): 403,
        served.user("eve", Role.VIEW): 403,
    }
    for caller, status in callers.items():
        with opened_by(served, caller) as client:
            answer = client.get("/what-if", params={"clone": job_id})
            assert answer.status_code == status
            assert (f'href="/what-if?clone={job_id}#job"' in client.get(f"/jobs/{job_id}").text) == (
                status == 200
            )
            assert ("alert(1)" in answer.text) == (status == 200) and "<img" not in answer.text
            assert client.get("/what-if?clone=none").status_code == 404


@pytest.mark.slow
def test_a_clone_is_changed_and_submitted_in_a_browser(served: Served, browser: Browser) -> None:
    job_id = submitted(served, name="first", args=["--lr", 0.1], deadline="now+1h")
    with browser.new_context() as context:
        watched = Watched(context)
        page = watched.page
        page.set_default_timeout(SOON_MS)
        page.goto(served.page.link(OWNER))
        page.goto(f"{served.url}/jobs/{job_id}")
        page.get_by_role("link", name="Clone…").click()
        expect(page.locator("#cloned")).to_contain_text(job_id)
        expect(page.get_by_label("Script")).to_have_value(__file__)
        expect(page.get_by_label("End after")).to_have_value("10")
        expect(page.get_by_label("Unit of the end")).to_have_value("steps")
        expect(page.locator("#deadline")).to_have_value("now+1h")
        page.get_by_label("Name", exact=True).fill("second")
        text = page.locator("#text")
        expect(text).to_have_value(re.compile("^name: second$", re.MULTILINE))
        assert serious_faults(page) == []
        text.fill(text.input_value().replace("0.1", "0.01"))
        page.get_by_role("button", name="Submit this job").click()
        page.locator("#answer a").wait_for(timeout=60_000)
        assert watched.complaints == []
    second = next(view for view in served.control.jobs() if view.name == "second")
    assert served.control.specs[second.id].args == ("--lr", "0.01")
    assert (second.deadline_s or 0) > time.time() + 3500


def test_stated_estimates_are_asked_for_again() -> None:
    stated = {"speed": "1:7100.5,2:13100.0", "resize_down_s": 3.0, "keep_estimates": True}
    spec, other = again(msgspec.convert(PLAIN | stated, Submission))
    assert spec.speed == other.speed == {1: 7100.5, 2: 13100.0}
    assert other.keeps_estimates and other.resize_down_s == 3.0
