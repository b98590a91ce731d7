"""A file with several jobs, on a platform with a real head and journal: all are submitted, or none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.stage import on_stage

from swell.model.errors import InvalidJob

#: The hands of the stage say that a gang has started when the machine did: no limit is over then.
FIRST = "- {name: a, command: sleep 1, time: 1000d}\n"
WRONG = {
    "- {name: b, command: sleep 1, time: 1000d, devices: 3}": "job 'b' asks for 3 devices",
    "- {name: b, command: sleep 1, time: 1000d, after: nobody}": "after: 'nobody' is no job",
    "- {name: b, command: no-such-program, time: 1000d}": "'no-such-program' is no program",
    "- {name: b, command: sleep 1, time: 1000d, booking: b-9}": "--booking: 'b-9' is no booking",
    "- {name: b, command: 'sleep 1', time: 1000d, devices: '{n}', sweep: {n: [1, 3]}}": "asks for 3 devices",
}


def test_all_are_submitted_or_none(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.yaml"
    with on_stage(tmp_path / "state", reads_files=True) as stage:
        for wrong, told in WRONG.items():
            jobs.write_text(FIRST + wrong)
            with pytest.raises(InvalidJob, match=told):
                stage.client.submit_file(jobs, key="once")
            assert stage.client.jobs() == []
        jobs.write_text(FIRST + "- {name: b, command: sleep 1, time: 1000d, after: a}\n" * 2)
        made = stage.client.submit_file(jobs, key="once")
        assert [view.id for view in stage.client.jobs()] == made and len(made) == 3
        assert stage.client.submit_file(jobs, key="once") == made
