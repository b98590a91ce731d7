"""A simulated run as files that any program reads: what it came to, its jobs, and what their gangs did.

POLICY.json          figures, and the truth that they were simulated against
POLICY.jobs.csv      a line a job, as `--jobs` writes them
POLICY.segments.csv  a line for each stretch in which a gang held the same devices at the same rate
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from swell.model.coding import encode
from swell.model.errors import InvalidInput
from swell.sim.outcome import JobOutcome
from swell.sim.report import PolicyResult, write_jobs
from swell.sim.segments import Segment

FIGURES, JOBS, SEGMENTS = ".json", ".jobs.csv", ".segments.csv"
COLUMNS = ("job_id", *Segment.__struct_fields__)
#: To the last digit: rates follow from shares, and a step is at the end of an epoch, or just before it.
EXACT = ("rate_per_s", "from_step", "share")

#: A line of a CSV: name of its column -> cell.
Line = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What was written of a run, as it stands in the files."""

    figures: Mapping[str, Any]  #: a `PolicyResult`
    jobs: list[Line]
    segments: list[Line]


def write_run(folder: Path, result: PolicyResult, jobs: Iterable[JobOutcome]) -> None:
    """Write the files of a run, in place of earlier ones. Times are to a millisecond. Raises OSError."""
    name = result.policy
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}{FIGURES}").write_bytes(msgspec.json.format(encode(result), indent=2) + b"\n")
    write_jobs(folder / f"{name}{JOBS}", [(name, jobs)])
    with (folder / f"{name}{SEGMENTS}").open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(COLUMNS)
        for job in jobs:
            writer.writerows((job.id, *_cells(segment)) for segment in job.segments)


def _cells(segment: Segment) -> Iterator[object]:
    for name in Segment.__struct_fields__:
        value = getattr(segment, name)
        if isinstance(value, tuple):
            yield " ".join(value)
        elif value is None:
            yield ""
        elif name in EXACT:
            yield repr(value)
        elif name == "until_step":
            yield f"{value:.6f}"
        else:
            yield f"{value:.3f}" if isinstance(value, float) else value


def recorded_policies(folder: Path) -> list[str]:
    """Those of which the folder has files, in alphabetical order. Raises InvalidInput if there are none."""
    found = sorted(file.name.removesuffix(SEGMENTS) for file in folder.glob(f"*{SEGMENTS}"))
    if not found:
        raise InvalidInput(
            f"{folder} holds no record of a run; write one with `swell simulate ... --stories FOLDER`"
        )
    return found


def read_run(folder: Path, policy: str) -> RunFiles:
    """Raises InvalidInput if a file is missing, or is not what was written."""
    try:
        figures = msgspec.json.decode((folder / f"{policy}{FIGURES}").read_bytes())
        jobs, segments = (list(_lines(folder / f"{policy}{kind}")) for kind in (JOBS, SEGMENTS))
    except OSError as error:
        raise InvalidInput(
            f"cannot read {error.filename}: {error.strerror}; simulate again with --stories"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(
            f"the record of {policy!r} in {folder} is damaged ({error}); simulate again with --stories"
        ) from error
    return RunFiles(figures, jobs, segments)


def _lines(file: Path) -> Iterator[Line]:
    with file.open(newline="", encoding="utf-8") as text:
        yield from csv.DictReader(text)
