"""Writing traces as plain CSV."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable
from itertools import compress
from pathlib import Path
from typing import Any

from swell.sim.traces.entry import TraceError, TraceJob
from swell.sim.traces.formats import plain
from swell.wire.whole_files import write_whole


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
