"""The journal as the head writes it: what came of batches, and now and then one state in place of many."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from swell.live.board import TurnNews
from swell.live.recovery import digest
from swell.live.webhooks import WebhookMessage, Webhooks
from swell.model.command import AnyCommand
from swell.model.errors import Unwritable
from swell.model.event import AnyEvent
from swell.store.journal import SqlJournal

P = ParamSpec("P")
T = TypeVar("T")

#: Between two tries.
RETRY_S = 0.5
#: After so many batches, or as many as there are open jobs, they are folded into one state: what a fold costs
#: is in proportion to these, and so it costs each turn the same. Where it fails, again after so many more.
#: A platform that is killed handles its batches again: sooner, therefore, if decisions have computed for so
#: many seconds, and so many times as long as a fold. What a turn has waited for is not waited for again.
FOLD_AFTER = 500
FOLD_AFTER_S, TIMES_A_FOLD = 2.0, 20
FOLD_AGAIN_AFTER = 50

log = logging.getLogger("swell.platform")


class HeadJournal:
    """While it cannot be written the head stands still: nothing is done that is not on disk before.

    All but `stop` and `refuse_while_stalled` belongs to the head's thread.

    Args:
        webhooks: whose messages are kept with what came of a batch.
        tell: hears why the head stands still, and an empty text when it goes on. None: it does not wait.
    """

    def __init__(
        self,
        store: SqlJournal,
        webhooks: Webhooks | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.store, self._webhooks, self._tell = store, webhooks or Webhooks(store), tell
        self._is_stopping = threading.Event()
        self.why = ""  #: the head stands still; empty: it does not
        self._fold_at_seq = 0
        self._handled_s, self._most_handled_s = 0.0, FOLD_AFTER_S  #: since the last fold, and until the next

    def append(self, batch: Sequence[AnyEvent]) -> None:
        """Returns when the batch is on disk.

        Raises:
            Unwritable: the platform is to stop, and does so without the batch: the agent keeps its events.
        """
        self._insist(self.store.append, batch)

    def amend(self, seq: int, batch: Sequence[AnyEvent]) -> None:
        """Do the same with a batch that takes the place of another."""
        self._insist(self.store.amend, seq, batch)

    def finish(self, seq: int, commands: Sequence[AnyCommand], news: TurnNews) -> list[WebhookMessage]:
        """Keep what came of a batch, unless that was done before; the messages that are to be sent then."""
        messages: list[WebhookMessage] = []
        try:
            messages = self._webhooks.of_ends(news)
        except Exception:  # a defect: without this it would come again with each start
            log.exception("webhooks are not told of the jobs that ended with batch %d", seq)
        deliveries = [message.delivery for message in messages]
        came_of_it = (digest(commands), news.ended, news.stories, deliveries)
        new = self._insist(self.store.finish, seq, *came_of_it)
        return [message for message in messages if message.id in new]

    def _insist(self, write: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                written = write(*args, **kwargs)
            except Unwritable as error:
                if self._tell is None:
                    raise
                self._note(str(error), self._tell)
                if self._is_stopping.wait(RETRY_S):
                    raise
            else:
                if self.why and self._tell is not None:
                    self._note("", self._tell)
                return written

    def _note(self, why: str, tell: Callable[[str], None]) -> None:
        if why != self.why:
            self.why = why
            log.warning("the platform %s", f"stands still: {why}" if why else "goes on")
            tell(why)

    def stop(self) -> None:
        """End the wait for a writable journal. May be called from any thread."""
        self._is_stopping.set()

    def refuse_while_stalled(self) -> None:
        """Raises Unwritable: a request would wait until there is room. May be called from any thread."""
        if self.why:
            raise Unwritable(f"the platform stands still: {self.why}; jobs that run train on")

    # ------------------------------------------------------------ folds
    def begin(self, folded_seq: int, replayed_s: float, num_open: int) -> None:
        """The head is where the journal ends, which was folded last after that batch.

        Args:
            replayed_s: that were computed to handle the batches since then again.
        """
        self._fold_at_seq = folded_seq + max(FOLD_AFTER, num_open)
        self._handled_s = replayed_s

    def is_fold_due(self, computed_s: float) -> bool:
        """Whether it is time to fold, after a turn that has computed for so long."""
        self._handled_s += computed_s
        return self._handled_s >= self._most_handled_s or self.store.last_seq >= self._fold_at_seq

    def fold(self, save: Callable[[], bytes], num_open: int) -> None:
        """What cannot be folded now, because the disk is full, stays in batches: they say the same.

        Args:
            save: the head's state after the last batch.
            num_open: jobs that it has.
        """
        began_s = time.thread_time()  # how long the disk takes says nothing of a replay
        self._handled_s = 0.0
        self._fold_at_seq = self.store.last_seq + FOLD_AGAIN_AFTER
        try:
            folded_seq = self.store.fold(save())
        except Unwritable as error:
            log.warning("the journal is not folded: %s", error)
        except Exception:  # as of a policy that cannot be saved: batches say the same
            log.exception("the journal is not folded")
        else:
            self.begin(folded_seq, 0.0, num_open)
            self._most_handled_s = max(FOLD_AFTER_S, TIMES_A_FOLD * (time.thread_time() - began_s))
