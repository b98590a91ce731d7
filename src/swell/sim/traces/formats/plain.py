"""The table that Swell writes: columns are the fields of `TraceJob`, of which only `submit_s` must be there.

    # epoch_s=1507338099
    submit_s,id,num_devices,duration_s
    0,first,4,3600
    12.5,second,1,600

Names that stand in many logs are taken as well: `job_id`, `num_gpus`, `batch_size`, `model_name` ...
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import compress
from pathlib import Path
from typing import Any

from swell.sim.traces.entry import TraceError, TraceJob
from swell.sim.traces.record import LineRemarks, Source
from swell.sim.traces.table import (
    TableFormat,
    TraceColumn,
    bound,
    column,
    count,
    flag,
    job_kind,
    kinds,
    loss_curve,
    needed_column,
    number,
    priority,
    status,
    text,
    time_limit,
    weight,
)
from swell.wire.whole_files import write_whole

#: A name is taken for a slip of another one if this share of their letters is the same, in order.
LIKE_SHARE = 0.85
#: Words that name a unit or a kind of column, not what it is of.
PLAIN_WORDS = frozenset(
    ("s", "ms", "sec", "secs", "second", "seconds", "minute", "minutes", "h", "hour", "hours", "time")
) | {"num", "number", "n", "is", "of", "size"}


def meant_column(name: str, known: Iterable[str]) -> str | None:
    """Return the column that differs only in its unit, as `deadline_s` of `deadline`; else the nearest."""
    names = tuple(known)
    same = (other for other in names if _words(other) == _words(name))
    return next(same, None) or next(iter(get_close_matches(name, names, n=1, cutoff=LIKE_SHARE)), None)


def _words(name: str) -> frozenset[str]:
    words = name.replace("-", "_").replace(" ", "_").split("_")
    told = frozenset(word.removesuffix("s") for word in words if word and word not in PLAIN_WORDS)
    return told or frozenset(words)


#: In the order in which they are written; `submit_s` first, so that no line begins with a `#`.
COLUMNS: dict[str, TraceColumn] = {
    "submit_s": needed_column("submit_s", parse=number),
    "id": column("id", "job_id", "job", parse=text),
    "num_devices": column("num_devices", "devices", "num_gpus", "num_gpu", "gpus", parse=count),
    "duration_s": column("duration_s", parse=number),
    "model": column("model", "model_name", parse=text),
    "global_batch": column("global_batch", "batch_size", parse=count),
    "num_steps": column("num_steps", "iterations", parse=number),
    "deadline_s": column("deadline_s", parse=bound),
    "is_best_effort": column("is_best_effort", "best_effort", parse=flag),
    "is_soft": column("is_soft", parse=flag),
    "user": column("user", parse=text),
    "tenant": column("tenant", "vc", parse=text),
    "status": column("status", parse=status),
    "ended_after_s": column("ended_after_s", parse=number),
    "min_batch": column("min_batch", parse=count),
    "max_batch": column("max_batch", parse=count),
    "loss_curve": column("loss_curve", parse=loss_curve),
    "metric": column("metric", parse=text),
    "cores_per_worker": column("cores_per_worker", parse=number),
    "priority": column("priority", parse=priority),
    "weight": column("weight", parse=weight),
    "min_devices": column("min_devices", parse=count),
    "kind": column("kind", parse=kinds),
    "job_kind": column("job_kind", parse=job_kind),
    "time_limit_s": column("time_limit_s", "time_s", "time", parse=time_limit),
    "booking": column("booking", parse=text),
}


def note_ignored(source: Source, ignored: list[str], absent: frozenset[str], remarks: LineRemarks) -> None:
    """A column left aside is said; one that was probably meant for a field the file lacks is an error."""
    names = {name: field for field in COLUMNS if field in absent for name in COLUMNS[field].names}
    for name in ignored:
        if meant := meant_column(name, names):
            raise TraceError(
                f"{source.path} has a column {name!r}, which no plain trace has; did you mean {meant!r}? "
                "Rename it in the first line, or remove it if it is something else"
            )
    if ignored:
        remarks.warnings.append(f"ignored, for no field of a job is in it: column {', '.join(ignored)}")


#: It may say on a line of its own when its clock began.
PLAIN = TableFormat(
    name="plain",
    title="plain CSV",
    columns=COLUMNS,
    note_ignored=note_ignored,
    comment="#",
    epoch=re.compile(r"#\s*epoch_s\s*=\s*(\S+)"),
)


def write_plain(path: Path, jobs: Iterable[TraceJob], epoch_s: float = 0.0) -> None:
    """Columns that no job fills are left out. `read` gives the same jobs back, to the last bit.

    Args:
        epoch_s: the first submission on the log's own clock.

    Raises:
        TraceError: the file cannot be written.
    """
    fields = list(COLUMNS)
    is_filled = [at < 2 for at in range(len(fields))]
    rows = [[getattr(job, field) for field in fields] for job in jobs]
    for row in rows:
        is_filled = [known or cell is not None for known, cell in zip(is_filled, row, strict=True)]
    text = io.StringIO()
    if epoch_s:
        text.write(f"# epoch_s={spell(epoch_s)}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(compress(fields, is_filled))
    writer.writerows(map(spell, compress(row, is_filled)) for row in rows)
    content = text.getvalue().encode()
    try:
        # The same trace makes the same bytes. A device or a pipe must not be replaced.
        content = gzip.compress(content, mtime=0) if path.suffix == ".gz" else content
        if path.is_file() or not path.exists():
            write_whole(path, content, mode=0o666)
        else:
            path.write_bytes(content)
    except OSError as error:
        raise TraceError(f"cannot write {path}: {error.strerror or error}") from error


def spell(value: Any) -> str:
    """A cell that is read back as the same value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)
