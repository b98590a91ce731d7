"""What other threads ask of the head between two of its turns."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TypeVar

from swell.live.inbox import Inbox
from swell.model.errors import Unavailable
from swell.model.lengths import span

#: The head's state is handed out between two of its turns, which take milliseconds.
STATE_TIMEOUT_S = 10.0

_Answer = TypeVar("_Answer")


class HeadQuestions:
    """Asked by any thread, answered by the head's."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._asked: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def ask(self, answer: Callable[[], _Answer]) -> _Answer:
        """Return what the head's thread answers between two turns.

        Raises Unavailable, if a turn takes too long, and whatever `answer` raises: the head goes on.
        """
        asked: Future[_Answer] = Future()

        def settle() -> None:
            try:
                asked.set_result(answer())
            except Exception as error:  # noqa: BLE001 - the thread that asked raises it
                asked.set_exception(error)

        self._asked.put(settle)
        self._inbox.nudge()
        try:
            return asked.result(STATE_TIMEOUT_S)
        except TimeoutError:
            raise Unavailable(
                f"the scheduler was busy for {span(STATE_TIMEOUT_S)} and did not answer; nothing was "
                "changed: ask again"
            ) from None

    def answer_all(self) -> None:
        """Do what other threads have asked for while the head stands."""
        while True:
            try:
                answer = self._asked.get_nowait()
            except Empty:
                return
            answer()
