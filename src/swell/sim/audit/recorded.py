"""A recorded run, read: numbers instead of cells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from swell.model.errors import InvalidInput
from swell.sim.run_files import Line, RunFiles
from swell.sim.segments import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedJob:
    """A line of a run's jobs, as far as it can be worked out again, and the job's segments."""

    id: str
    model: str
    global_batch: int
    num_steps: int
    submit_s: float
    deadline_s: float | None
    phase: str
    is_unpromised: bool
    is_buggy: bool
    start_s: float | None
    end_s: float | None
    is_kept: bool | None
    jct_s: float | None
    num_resizes: int
    device_s: float
    sizes: str  #: this and those below as they stand in the line
    devices: str
    starts: str
    pauses: str
    segments: Sequence[Segment]
    cores_per_worker: float = 1.0


def jobs_of(files: RunFiles) -> list[RecordedJob]:
    """Raises InvalidInput for a cell that is none."""
    segments: dict[str, list[Segment]] = defaultdict(list)
    try:
        for line in files.segments:
            segments[line["job_id"]].append(_segment(line))
        return [_job(line, segments.get(line["id"], [])) for line in files.jobs]
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidInput(f"the record of the run is damaged: {error!r}; simulate again") from error


def _job(line: Line, segments: Sequence[Segment]) -> RecordedJob:
    return RecordedJob(
        id=line["id"],
        model=line["model"],
        global_batch=int(line["global_batch"]),
        num_steps=int(line["num_steps"]),
        submit_s=float(line["submit_s"]),
        deadline_s=_number(line["deadline_s"]),
        phase=line["phase"],
        is_unpromised=line["is_unpromised"] == "True",
        is_buggy=line["is_buggy"] == "True",
        start_s=_number(line["start_s"]),
        end_s=_number(line["end_s"]),
        is_kept=None if not line["is_kept"] else line["is_kept"] == "True",
        jct_s=_number(line["jct_s"]),
        num_resizes=int(line["num_resizes"]),
        device_s=float(line["device_s"]),
        sizes=line["sizes"],
        devices=line["devices"],
        starts=line["starts"],
        pauses=line["pauses"],
        segments=segments,
        cores_per_worker=float(line.get("cores_per_worker") or 1.0),
    )


def _segment(line: Line) -> Segment:
    return Segment(
        from_s=float(line["from_s"]),
        until_s=float(line["until_s"]),
        trains_from_s=float(line["trains_from_s"]),
        rate_per_s=float(line["rate_per_s"]),
        from_step=float(line["from_step"]),
        until_step=float(line["until_step"]),
        between_s=float(line["between_s"]),
        devices=tuple(line["devices"].split()),
        joining=tuple(line["joining"].split()),
        global_batch=int(line["global_batch"]) if line["global_batch"] else None,
        end=line["end"],
        share=_number(line.get("share", "")),
    )


def _number(cell: str) -> float | None:
    return float(cell) if cell else None
