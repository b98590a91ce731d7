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
    for job_id, user, hours, used_s in (("job-a", "ada", 2.0, 9000.0), ("job-b", "", 1.0, None)):
        sizes = ((now_s - 9 * 3600.0, 2),)
        end_s = sizes[0][0] + hours * 3600.0
        control.put(
            job_view(
                id=job_id,
                name=job_id,
                user=user,
                sizes=sizes,
                finished_s=end_s,
                job_class=JobClass.SOFT,
                used=() if used_s is None else ((end_s, used_s),),
            )
        )
    return control


def test_hours_are_printed_as_csv_or_json(here: Run, used: FakeControl) -> None:
    assert here("admin", "usage").stdout.splitlines() == [
        "user,device_hours,used_hours,measured_hours",
        "ada,4.0,2.5,4.0",
        "owner,2.0,-,0.0",
    ]
    by_job = here("admin", "usage", "--by", "job").stdout.splitlines()
    assert by_job[0] == "job,name,user,tenant,job_class,kind,device_hours,used_hours,measured_hours"
    assert by_job[1].startswith("job-a,job-a,ada,") and by_job[1].endswith(",4.0,2.5,4.0")
    told = json.loads(here("admin", "usage", "--json", "--by", "class").stdout)
    assert (told["device_hours"], told["used_hours"], told["measured_hours"]) == (6.0, 2.5, 4.0)
    assert told["rows"][0]["job_class"] == "soft"


def test_a_time_without_jobs_has_no_line(here: Run, used: FakeControl) -> None:
    for words in (("--since", "1h"), ("--until", "2001-01-01")):
        assert here("admin", "usage", *words).stdout == "user,device_hours,used_hours,measured_hours\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--since", "soon"), "--since: 'soon' is not a time"),
        (("--until", "soon"), "--until: 'soon' is not a time"),
        (("--since", "1h", "--until", "2h"), "choose an earlier begin"),
        (("--by", "rack"), "rack"),
    ],
)
def test_what_cannot_be_is_named(here: Run, used: FakeControl, words: tuple[str, ...], why: str) -> None:
    done = here("admin", "usage", *words)
    assert done.returncode != 0 and why in done.stderr
