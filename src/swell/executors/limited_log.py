"""Logs that strangers can neither fill nor forge: what they do wrong is told at most once a minute."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from swell.model.names import printable

TELL_EVERY_S = 60.0


class LimitedLog:
    """Log lines of one kind, such as `log.warning` tells: at most one every `TELL_EVERY_S`."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell, self._told_s = tell, float("-inf")

    def __call__(self, form: str, *about: object) -> None:
        """Tell a line, unless one was told lately."""
        now_s = time.monotonic()
        if now_s >= self._told_s + TELL_EVERY_S:
            self._told_s = now_s
            self._tell(form, *about)


class RecordFormatter(logging.Formatter):
    """Formats a record so that only its first line begins at the margin, and a terminal obeys none of it."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record)).replace("\n", "\n    ")


def log_to_stderr(form: str, logger: logging.Logger | None = None) -> None:
    """Log what is INFO or above in this form, unless the logger, or the root one, has a handler already."""
    logger = logging.getLogger() if logger is None else logger
    logger.setLevel(logging.INFO)
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(RecordFormatter(form))
        logger.addHandler(handler)
