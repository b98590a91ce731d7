"""Imported by a zygote that is to find that its user has as many threads as are allowed."""

from __future__ import annotations

import threading


def refuse(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


threading.Thread.start = refuse  # type: ignore[method-assign, assignment]
