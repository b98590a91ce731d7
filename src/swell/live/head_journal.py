"""The journal as the head writes it: batches, what came of them, and folds of them into one state."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from swell.core.platform_core import PlatformCore
from swell.live.board import TurnResult
from swell.live.forked_call import ForkedCall
from swell.live.recovery import BatchGuard, digest, load, replay
from swell.live.webhook_messages import WebhookMessage
from swell.live.webhooks import Webhooks
from swell.model.command import AnyCommand
from swell.model.errors import Unwritable
from swell.model.event import AnyEvent
from swell.store.journal import JournalHistory, SqlJournal, packed

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
        self, store: SqlJournal, webhooks: Webhooks | None = None, tell: Callable[[str], None] | None = None
    ) -> None:
        self.store, self._webhooks, self._tell = store, webhooks or Webhooks(store), tell
        self._is_stopping = threading.Event()
        self.why = ""  #: the head stands still; empty: it does not
        self._fold: tuple[int, ForkedCall] | None = None  #: after which batch, and what writes down the state
        self._fold_at_seq = 0
        self._handled_s, self._most_handled_s = 0.0, FOLD_AFTER_S  #: since the last fold, and until the next

    def recover(self, core: PlatformCore, history: JournalHistory) -> Iterator[TurnResult]:
        """Bring a new head to where the journal ends, which then has all that came of its batches.

        Yields what the head knows in the beginning, and what came of each batch.
        """
        load(core, history.state)
        yield TurnResult.of(core)
        mend = BatchGuard(core, self.store, self.amend).mend
        for entry, commands in replay(core, history.entries, mend):
            news = TurnResult.of(core)
            self.finish(entry.seq, commands, news)
            yield news

    def append(self, batch: Sequence[AnyEvent]) -> None:
        """Returns when the batch is on disk.

        Raises:
            Unwritable: the platform is to stop, and does so without the batch: the agent keeps its events.
        """
        self._retry_while_full(self.store.append, batch)

    def amend(self, seq: int, batch: Sequence[AnyEvent]) -> None:
        """Do the same with a batch that takes the place of another."""
        self._retry_while_full(self.store.amend, seq, batch)

    def finish(self, seq: int, commands: Sequence[AnyCommand], news: TurnResult) -> list[WebhookMessage]:
        """Keep what came of a batch, unless that was done before; the messages that are to be sent then."""
        messages: list[WebhookMessage] = []
        try:
            messages = self._webhooks.news.of_ends(news)
        except Exception:  # a defect: without this it would come again with each start
            log.exception("webhooks are not told of the jobs that ended with batch %d", seq)
        deliveries = [message.delivery for message in messages]
        came_of_it = (digest(commands), news.ended, news.stories, deliveries)
        new = self._retry_while_full(self.store.finish, seq, *came_of_it)
        return [message for message in messages if message.id in new]

    def _retry_while_full(self, write: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                written = write(*args, **kwargs)
            except Unwritable as error:
                if self._tell is None:
                    raise
                self._tell_stall(str(error), self._tell)
                if self._is_stopping.wait(RETRY_S):
                    raise
            else:
                if self.why and self._tell is not None:
                    self._tell_stall("", self._tell)
                return written

    def _tell_stall(self, why: str, tell: Callable[[str], None]) -> None:
        if why != self.why:
            self.why = why
            log.warning("the platform %s", f"stands still: {why}" if why else "goes on")
            tell(why)

    def stop_waiting(self) -> None:
        """End the wait for a writable journal. May be called from any thread, as `wait_again`."""
        self._is_stopping.set()

    def wait_again(self) -> None:
        """Wait for a writable journal again: it is not known whether the platform will stop."""
        self._is_stopping.clear()

    def refuse_while_stalled(self) -> None:
        """Raises Unwritable: a request would wait until there is room. May be called from any thread."""
        if self.why:
            raise Unwritable(f"the platform stands still: {self.why}; jobs that run train on")

    # ------------------------------------------------------------ folds
    def schedule_fold(self, folded_seq: int, replayed_s: float, num_open: int) -> None:
        """The head is where the journal ends, which was folded last after that batch.

        Args:
            replayed_s: that were computed to handle the batches since then again.
        """
        self._fold_at_seq = folded_seq + max(FOLD_AFTER, num_open)
        self._handled_s = replayed_s

    def is_fold_due(self, computed_s: float) -> bool:
        """Whether it is time to fold, after a turn that has computed for so long."""
        self._handled_s += computed_s
        is_due = self._handled_s >= self._most_handled_s or self.store.last_seq >= self._fold_at_seq
        return is_due and self._fold is None

    def begin_fold(self, save: Callable[[], bytes], num_open: int) -> None:
        """Have a copy of this process write down the head's state after the last batch: that takes long.

        Args:
            save: the head's state.
            num_open: jobs that it has.
        """
        self.schedule_fold(self.store.last_seq, 0.0, num_open)
        with self._or_later():
            self._fold = self.store.last_seq, ForkedCall(lambda: packed(save()))

    def end_fold(self) -> None:
        """Put the state in the place of its batches if it is written down by now. Else they say the same."""
        if self._fold is None:
            return
        (seq, call), began_s = self._fold, time.thread_time()
        with self._or_later():
            if (answer := call.answer()) is None:
                return
            self.store.fold_to(seq, answer.content)
            # How long the disk takes says nothing of a replay.
            taken_s = answer.cpu_s + time.thread_time() - began_s
            self._most_handled_s = max(FOLD_AFTER_S, TIMES_A_FOLD * taken_s)
            self._fold = None

    def drop_fold(self) -> None:
        """Leave the batches whose state is not written down yet."""
        if self._fold is not None:
            self._fold[1].kill()
            self._fold = None

    def fold(self, save: Callable[[], bytes]) -> None:
        """Do all of it now: the head has ended."""
        with self._or_later():
            self.store.fold(save())

    @contextmanager
    def _or_later(self) -> Iterator[None]:
        """What cannot be folded now, because the disk is full, stays in batches: they say the same."""
        try:
            yield
        except Unwritable as error:
            log.warning("the journal is not folded: %s", error)
        except Exception:  # as of a policy that cannot be saved
            log.exception("the journal is not folded")
        else:
            return
        self._fold, self._handled_s = None, 0.0
        self._fold_at_seq = self.store.last_seq + FOLD_AGAIN_AFTER
