"""What a transaction changes in the journal's database, as another database can repeat it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec
import sqlalchemy as sa

#: All others only read, or belong to SQLite itself. Tables are made before anything is recorded.
CHANGES = ("INSERT", "UPDATE", "DELETE")


class Statement(msgspec.Struct, frozen=True, array_like=True):
    """It is executed once for each row of values, which are of types that SQLite stores as they are."""

    text: str
    rows: list[tuple[Any, ...]]


class JournalCopy(Protocol):
    """Somewhere else."""

    def commit(self, transaction: Sequence[Statement]) -> None:
        """It is on the disk here. Returns once it is in the copy, or the copy is behind."""

    @property
    def notice(self) -> str:
        """What the owner of the platform should know of the copy; empty: nothing."""


@contextmanager
def recorded(connection: sa.Connection) -> Iterator[list[Statement]]:
    """The statements that the connection executes meanwhile and that change something."""
    found: list[Statement] = []

    def note(
        _connection: object, _cursor: object, text: str, values: Any, _context: object, is_many: bool
    ) -> None:
        if text.lstrip().startswith(CHANGES):
            found.append(Statement(text, [tuple(row) for row in (values if is_many else [values])]))

    sa.event.listen(connection, "after_cursor_execute", note)
    try:
        yield found
    finally:
        sa.event.remove(connection, "after_cursor_execute", note)
