"""`swell admin usage`, against a real server over a fake platform."""

from __future__ import annotations

import json

import pytest
from tests.api.fake_control import FakeControl
from tests.cli.conftest import Run
from tests.store.views import job_view

from swell.model.job import JobClass


@pytest.fixture
def used(control: FakeControl) -> FakeControl:
    now_s = control.now_s()
    for job_id, user, hours in (("job-a", "ada", 2.0), ("job-b", "", 1.0)):
        sizes = ((now_s - 9 * 3600.0, 2),)
        end_s = sizes[0][0] + hours * 3600.0
        control.put(
            job_view(
                id=job_id, name=job_id, user=user, sizes=sizes, finished_s=end_s, job_class=JobClass.SOFT
            )
        )
    return control


def test_hours_are_shown_with_their_sum(here: Run, used: FakeControl) -> None:
    shown = here("admin", "usage").stdout.splitlines()
    assert [line.split() for line in shown] == [
        ["USER", "DEVICE", "HOURS"],
        ["ada", "4.000"],
        ["owner", "2.000"],
        ["total", "6.000"],
    ]
    by_job = here("admin", "usage", "--by", "job").stdout.splitlines()
    assert by_job[1].split()[:2] == ["job-a", "job-a"] and by_job[1].endswith("4.000")
    assert by_job[-1].split() == ["total", "6.000"]


def test_programs_read_json_or_csv(here: Run, used: FakeControl) -> None:
    told = json.loads(here("admin", "usage", "--json", "--by", "class").stdout)
    assert told["device_hours"] == 6.0 and told["rows"][0]["job_class"] == "soft"
    assert here("admin", "usage", "--csv").stdout.splitlines() == [
        "user,device_hours",
        "ada,4.0",
        "owner,2.0",
    ]


def test_of_a_time_without_jobs_it_says_so(here: Run, used: FakeControl) -> None:
    assert here("admin", "usage", "--since", "1h").stdout == "no job had a device in this time\n"
    assert here("admin", "usage", "--until", "2001-01-01").stdout == "no job had a device in this time\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--since", "soon"), "--since: 'soon' is not a time"),
        (("--until", "soon"), "--until: 'soon' is not a time"),
        (("--since", "1h", "--until", "2h"), "choose an earlier begin"),
        (("--by", "rack"), "rack"),
        (("--csv", "--json"), "choose one of --json and --csv"),
    ],
)
def test_what_cannot_be_is_named(here: Run, used: FakeControl, words: tuple[str, ...], why: str) -> None:
    done = here("admin", "usage", *words)
    assert done.returncode != 0 and why in done.stderr
