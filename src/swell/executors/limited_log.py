"""Logs that strangers can neither fill nor forge: what they do wrong is told at most once a minute."""

from __future__ import annotations

import logging
import time

from swell.model.names import printable

TELL_EVERY_S = 60.0


class LimitedLog:
    """Rate limit of one kind of log line: at most one every `TELL_EVERY_S`."""

    def __init__(self) -> None:
        self._told_s = float("-inf")

    def take(self) -> bool:
        """Whether a line may be told now; then it counts as told."""
        now_s = time.monotonic()
        is_due = now_s >= self._told_s + TELL_EVERY_S
        if is_due:
            self._told_s = now_s
        return is_due


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
