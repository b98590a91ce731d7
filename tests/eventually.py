"""Waiting for what another process or thread does: for a state, and never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
#: What takes longer than this has gone wrong, on whatever machine. Only a failure waits it out.
PATIENCE_S = 240.0


def eventually(
    look: Callable[[], T | None],
    what: str | Callable[[], str] = "it never came true",
    patience_s: float = PATIENCE_S,
) -> T:
    """The first answer that is not empty. `what`: for the reader of a failure."""
    give_up_s = time.monotonic() + patience_s
    while not (found := look()):
        assert time.monotonic() < give_up_s, (
            f"not within {patience_s:g} s: {what() if callable(what) else what}"
        )
        time.sleep(0.02)
    return found
