"""Per-job outcomes of ElasticFlow's published simulator."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from swell.model.errors import InvalidInput

#: What is read of `time,job_id,num_gpu,submit_time,start_time,end_time,ddl,executed_time,JCT,...`.
COLUMNS = ("job_id", "end_time", "ddl")


class PublishedJob(NamedTuple):
    """One that it ran to its end, on the clock of its trace; jobs that it declined are in no row."""

    end_s: float
    deadline_s: float


Run = Mapping[str, PublishedJob]


def read_run(path: Path) -> Run:
    """Outcomes by job id. Raises InvalidInput: not such a file, or a row of it is malformed."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            lacking = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if lacking:
                raise InvalidInput(f"{path} has no column {lacking[0]!r}; it needs {', '.join(COLUMNS)}")
            return {row["job_id"]: PublishedJob(float(row["end_time"]), float(row["ddl"])) for row in reader}
    except (OSError, UnicodeDecodeError, ValueError, TypeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{path} is no list of job outcomes: {error}") from error


def in_time(run: Run, ids: frozenset[str]) -> frozenset[str]:
    """Those of `ids` that ended at or before their deadline."""
    return frozenset(job_id for job_id in ids & run.keys() if run[job_id].end_s <= run[job_id].deadline_s)
