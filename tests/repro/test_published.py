from __future__ import annotations

from pathlib import Path

import pytest
from tests.repro import tiny

from swell.model.errors import InvalidInput
from swell_papers.published import in_time, read_run

ALL = frozenset({"easy", "hopeless", "late"})


def test_a_job_that_is_late_by_seconds_is_late(tmp_path: Path) -> None:
    run = read_run(tiny.write(tmp_path) / tiny.RUN)
    assert in_time(run, ALL) == {"easy"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("job_id,end_time\n", "has no column 'ddl'; it needs job_id, end_time, ddl"),
        ("job_id,end_time,ddl\na,soon,5\n", "is no list of job outcomes: could not convert"),
        ("job_id,end_time,ddl\na,5\n", "is no list of job outcomes"),
        ("", "has no column 'job_id'"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "run.csv"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=r"run\.csv") as raised:
        read_run(file)
    assert why in str(raised.value)
