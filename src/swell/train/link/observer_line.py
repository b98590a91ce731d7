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
        self._pid = os.getpid()
        self._sending = threading.RLock()  # a signal's handler may report while a report is under way
        self._line: AgentLine | None = None
        self.is_over = False  #: nothing is said any more

    def send(self, message: messages.Message, *, is_question: bool = False) -> messages.FromAgent | None:
        """Say something, and wait for the answer to a question; None: none comes.

        A signal's handler must ask no questions.
        """
        if os.getpid() != self._pid:
            return None  # the lock may be a copy of one that another thread held, and that is never released
        with self._sending:
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
