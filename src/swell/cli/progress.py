"""Bars that grow with what is read, written or simulated, where somebody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from swell.cli.printable import raw

Item = TypeVar("Item")

#: A bar is moved after so many items.
NUM_BETWEEN = 4096


@contextmanager
def progress_bar(label: str, total: int, unit: str = "") -> Iterator[Callable[[int], None]]:
    """Gives what is to be called with the number that is done. `unit`: of the numbers, which are shown."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    columns = list(Progress.get_default_columns())
    if unit:
        columns.append(TextColumn(f"{{task.completed:,.0f}} of {{task.total:,.0f}} {unit}"))
    with Progress(*columns, console=Console(file=raw(sys.stderr)), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def reading(file: Path) -> Iterator[Callable[[int], None]]:
    """Gives what is to be called with the bytes of the file that have been read."""
    num_bytes = file.stat().st_size if file.is_file() else 0
    with progress_bar(f"reading {file.name}", num_bytes) as advance:
        yield advance


@contextmanager
def counted(label: str, items: Iterable[Item], num: int) -> Iterator[Iterable[Item]]:
    """Gives the same items; the bar grows as one goes through them.

    Args:
        num: of the items, or about so many.
    """
    with progress_bar(label, num) as advance:

        def each() -> Iterator[Item]:
            for done, item in enumerate(items):
                if done % NUM_BETWEEN == 0:
                    advance(done)
                yield item

        yield each()
