"""The line of a script that knows nothing of Swell to its agent. It has no thread."""

from __future__ import annotations

import os
import threading

from swell.train.link.agent_line import AgentLine
from swell.wire import environ, messages
from swell.wire.lines import NO_MESSAGE

SEND_TIMEOUT_S = 0.5
#: An agent that gives no answer for so long gives none any more.
ANSWER_TIMEOUT_S = 5.0


class ObserverLine:
    """Opened when there is something to say. The script goes on without an agent that does not listen.

    Processes that the script has forked say nothing.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()  #: a signal's handler may report while a report is under way
        self._line: AgentLine | None = None
        self.is_over = False  #: nothing is said any more
        os.register_at_fork(after_in_child=self._leave_off)

    def _leave_off(self) -> None:
        """This process is the script's own; another thread of its parent's may have held the lock."""
        self.is_over, self.lock = True, threading.RLock()

    def send(self, message: messages.Message, *, is_question: bool = False) -> messages.FromAgent | None:
        """Say something, and wait for the answer to a question; None: none comes.

        A signal's handler must ask no questions.
        """
        with self.lock:
            try:
                return None if self.is_over else self._say(message, is_question)
            except (OSError, *NO_MESSAGE):
                self.is_over = True
                return None

    def _say(self, message: messages.Message, is_question: bool) -> messages.FromAgent | None:
        if self._line is None:
            names = os.environ
            self._line = AgentLine(names[environ.OBSERVER], names[environ.TOKEN], int(names[environ.WORKER]))
        self._line.socket.settimeout(ANSWER_TIMEOUT_S if is_question else SEND_TIMEOUT_S)
        self._line.say(message)
        return self._line.hear() if is_question else None
