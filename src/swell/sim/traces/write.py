"""Writing traces: plain CSV, and ElasticFlow's."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import IO, Any, TextIO, cast

from swell.sim.traces.entry import TraceJob
from swell.sim.traces.errors import TraceError
from swell.sim.traces.formats import plain

ELASTICFLOW_HEADER = (
    "job_id",
    "submit_time",
    "iteration",
    "model_name",
    "ddl",
    "batch_size",
    "num_gpu",
    "duration",
    "best_effort",
)


def write_plain(path: Path, jobs: Iterable[TraceJob], epoch_s: float = 0.0) -> None:
    """Columns that no job fills are left out. `read` gives the same jobs back, to the last bit.

    Args:
        epoch_s: the first submission on the log's own clock.

    Raises:
        TraceError: the file cannot be written.
    """
    fields = list(plain.COLUMNS)
    is_filled = [at < 2 for at in range(len(fields))]
    rows = [plain.cells(job) for job in jobs]
    for row in rows:
        is_filled = [known or cell is not None for known, cell in zip(is_filled, row, strict=True)]
    with replacing(path) as text:
        if epoch_s:
            text.write(f"# epoch_s={spell(epoch_s)}\n")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(compress(fields, is_filled))
        writer.writerows(map(spell, compress(row, is_filled)) for row in rows)


def write_elasticflow(path: Path, jobs: Iterable[TraceJob], epoch_s: float = 0.0) -> None:
    """Later of the two spellings, on a clock that is 0 at the first submission.

    A best-effort job without a deadline gets its submission as one; the format has no blank for it, nor for
    `epoch_s`.

    Raises:
        TraceError: a job lacks what the format needs, or the file cannot be written.
    """
    with replacing(path) as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(ELASTICFLOW_HEADER)
        writer.writerows(map(elasticflow_cells, jobs))


def elasticflow_cells(job: TraceJob) -> Sequence[str]:
    """Return a job's cells in the order of `ELASTICFLOW_HEADER`. Raises TraceError if the job lacks one."""
    is_best_effort = bool(job.is_best_effort)
    deadline_s = job.submit_s if is_best_effort and job.deadline_s is None else job.deadline_s
    values = (
        job.id,
        job.submit_s,
        job.num_steps,
        job.model,
        deadline_s,
        job.global_batch,
        job.num_devices,
        job.duration_s,
        is_best_effort,
    )
    for name, value in zip(ELASTICFLOW_HEADER, values, strict=True):
        if value is None:
            raise TraceError(
                f"job {job.id!r} has no {name}, which an elasticflow trace needs; fill what is missing with "
                "--profiles, or write a plain one"
            )
    return [spell(value) for value in values]


def spell(value: Any) -> str:
    """A cell that is read back as the same value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """A text that takes the file's place once it is complete; packed if the name ends in .gz.

    What is there and no plain file, a device or a pipe, is written to as it is: it must not be replaced.
    """
    is_replaced = path.is_file() or not path.exists()
    part = path.with_name(f"{path.name}.part") if is_replaced else path
    try:
        with _opened(part, is_packed=path.suffix == ".gz") as data:
            text = io.TextIOWrapper(data, "utf-8", newline="")
            yield text
            text.flush()
            text.detach()
        if is_replaced:
            os.replace(part, path)
    except OSError as error:
        raise TraceError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if is_replaced:
            part.unlink(missing_ok=True)


def _opened(part: Path, is_packed: bool) -> IO[bytes]:
    if is_packed:
        return cast("IO[bytes]", gzip.GzipFile(part, "wb", mtime=0))  # the same trace, the same bytes
    return part.open("wb")
