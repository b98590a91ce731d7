"""Writing traces as plain CSV."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import IO, Any, TextIO, cast

from swell.sim.traces.entry import TraceJob
from swell.sim.traces.errors import TraceError
from swell.sim.traces.formats import plain


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
