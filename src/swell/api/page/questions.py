"""Questions of pages, each in a process of its own: few at a time, and for so long."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from swell.api.page.question import Answer, HandedQuestion
from swell.model.coding import encode
from swell.model.lengths import span

#: A forecast of a thousand jobs takes some seconds.
LIMIT_S = 30.0
#: Processes at a time, of all pages together.
MOST_TOGETHER = 2


class QuestionRefused(RuntimeError):
    """The question was not asked; the text says why, and when to ask again."""


class Questions:
    """Any thread."""

    def __init__(self, limit_s: float = LIMIT_S, command: tuple[str, ...] | None = None) -> None:
        self._limit_s = limit_s
        own = (sys.executable, "-P", "-m", "swell.api.page.apart", str(int(limit_s) + 1))
        self._command = own if command is None else command
        self._lock = threading.Lock()
        self._asking: set[str] = set()

    def ask(self, session: str, task: HandedQuestion) -> Answer:
        """Waits for the answer. Raises QuestionRefused."""
        with self._place(session):
            try:
                done = subprocess.run(
                    self._command, input=encode(task), capture_output=True, timeout=self._limit_s, check=False
                )
            except subprocess.TimeoutExpired:
                return Answer(error=self._too_long(task))
        try:
            return msgspec.json.decode(done.stdout, type=Answer, strict=False)
        except msgspec.MsgspecError:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            why = said[0][:300] if said else f"status {done.returncode}"
            return Answer(error=f"the process that was to answer failed ({why}); ask on the command line")

    def is_asking(self, session: str) -> bool:
        """Whether a question of that page is being answered."""
        with self._lock:
            return session in self._asking

    @contextmanager
    def _place(self, session: str) -> Iterator[None]:
        with self._lock:
            if session in self._asking:
                raise QuestionRefused(
                    "the last question of this page is still being answered, for "
                    f"{span(self._limit_s)} at most; wait for it, then ask again"
                )
            if len(self._asking) >= MOST_TOGETHER:
                raise QuestionRefused(
                    "questions of other pages are being answered; ask again in some seconds"
                )
            self._asking.add(session)
        try:
            yield
        finally:
            with self._lock:
                self._asking.discard(session)

    def _too_long(self, task: HandedQuestion) -> str:
        if task.state:
            return (
                f"the forecast took longer than {span(self._limit_s)} and was stopped; ask on the command "
                "line, which has no limit, or for less"
            )
        return f"the job file took longer than {span(self._limit_s)} to read; submit it in parts"
