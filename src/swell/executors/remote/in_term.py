"""What the controller and a joined host say in their stream: messages, each with the term that it belongs to.

A term is that of the host's lease. What was said in one that is over is about workers that are gone, so both
sides drop it, however late it comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from swell.executors.exit_status import NOT_STARTED
from swell.executors.hosts.messages import (
    FromHost,
    OpenRun,
    RunRefused,
    StartWorker,
    ToHost,
    WorkerExited,
)
from swell.executors.remote.conversation import Conversation, MessageTooLong
from swell.executors.remote.opened_runs import OpenedRuns
from swell.model.event import Outcome

log = logging.getLogger("swell.hosts")


class StreamMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pass


# ---------------------------------------------------------------- controller -> host
class ToldInTerm(StreamMessage, frozen=True, kw_only=True):
    """See `NodeHost.tell`."""

    term: int
    message: ToHost


class LeaveOrdered(StreamMessage, frozen=True, kw_only=True):
    """The host is to end its workers, say `HostLeft`, and end."""

    why: str


ToJoined = ToldInTerm | LeaveOrdered


# ---------------------------------------------------------------- host -> controller
class SaidInTerm(StreamMessage, frozen=True, kw_only=True):
    """What the host answers."""

    term: int
    message: FromHost


class HostLeft(StreamMessage, frozen=True, kw_only=True):
    """No worker of this term is left, and none will be started in it. The process is about to end."""

    term: int


FromJoined = SaidInTerm | HostLeft


# ---------------------------------------------------------------- the controller's end
class HostInTerm:
    """See `NodeHost`. What it is told waits in the stream as long as there is no line."""

    def __init__(
        self,
        conversation: Conversation,
        term: int,
        answer: Callable[[FromHost], None],
        opened: OpenedRuns,
    ) -> None:
        """
        Args:
            answer: takes what is answered here, because the host will never hear the question.
            opened: is told what the host is told.
        """
        self.term = term
        self._conversation = conversation
        self._answer, self._opened = answer, opened

    @property
    def is_reached(self) -> bool:
        return self._conversation.has_line

    def tell(self, message: ToHost) -> None:
        self._opened.note_told(message)
        try:
            self._conversation.say(ToldInTerm(term=self.term, message=message))
        except MessageTooLong as error:
            self._refuse(message, str(error))

    def _refuse(self, message: ToHost, why: str) -> None:
        match message:
            case OpenRun(run=run):
                self._answer(RunRefused(run=run, outcome=Outcome.FAILED, why=why))
            case StartWorker(run=run, worker=worker):
                exited = WorkerExited(run=run, worker=worker, status=NOT_STARTED, log_tail=why)
                self._answer(exited)
            case _:
                log.error("a host was not told: %s", why)
