"""What is kept of batches: what came of each, and, now and then, one state in the place of many."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from swell.core.platform_core import PlatformCore
from swell.live.board import ViewBoard
from swell.live.recovery import digest
from swell.live.retrying_journal import RetryingJournal
from swell.live.turns import TurnNews
from swell.live.webhooks import WebhookMessage, Webhooks
from swell.model.command import AnyCommand
from swell.model.errors import Unwritable
from swell.store.journal import SqlJournal

#: After so many batches, or as many as there are open jobs, they are folded into one state: what a fold costs
#: is in proportion to these, and so it costs each turn the same. Where it fails, again after so many more.
#: A platform that is killed handles its batches again: sooner, therefore, if decisions have computed for so
#: many seconds, and so many times as long as a fold. What a turn has waited for is not waited for again.
FOLD_AFTER = 500
FOLD_AFTER_S, TIMES_A_FOLD = 2.0, 20
FOLD_AGAIN_AFTER = 50

log = logging.getLogger("swell.platform")


def finish(
    journal: SqlJournal | RetryingJournal,
    seq: int,
    commands: Sequence[AnyCommand],
    news: TurnNews,
    webhooks: Webhooks,
) -> list[WebhookMessage]:
    """Keep what came of a batch, unless that was done before; the messages that are to be sent then."""
    messages: list[WebhookMessage] = []
    try:
        messages = webhooks.of_ends(news)
    except Exception:  # a defect: without this it would come again with each start
        log.exception("webhooks are not told of the jobs that ended with batch %d", seq)
    deliveries = [message.delivery for message in messages]
    new = journal.finish(seq, digest(commands), news.ended, news.stories, deliveries)
    return [message for message in messages if message.id in new]


class JournalFolds:
    """Folds the journal of a running platform. Called by the head's thread."""

    def __init__(self, core: PlatformCore, store: SqlJournal, board: ViewBoard) -> None:
        self._core, self._store, self._board = core, store, board
        self._fold_at_seq = 0
        self._handled_s, self._most_handled_s = 0.0, FOLD_AFTER_S  #: since the last fold, and until the next

    def begin(self, folded_seq: int, replayed_s: float) -> None:
        """The head is where the journal ends, which was folded last after that batch.

        Args:
            replayed_s: that were computed to handle the batches since then again.
        """
        self._note_fold(folded_seq)
        self._handled_s = replayed_s

    def end_turn(self, computed_s: float) -> None:
        """Fold, if it is time, after a turn that has computed for so long."""
        self._handled_s += computed_s
        if self._handled_s >= self._most_handled_s or self._store.last_seq >= self._fold_at_seq:
            self.fold()

    def fold(self) -> None:
        """What cannot be folded now, because the disk is full, stays in batches: they say the same."""
        began_s = time.thread_time()  # how long the disk takes says nothing of a replay
        self._handled_s = 0.0
        try:
            folded_seq = self._store.fold(self._core.save())
        except Unwritable as error:
            log.warning("the journal is not folded: %s", error)
            self._fold_at_seq = self._store.last_seq + FOLD_AGAIN_AFTER
            return
        except Exception:  # as of a policy that cannot be saved: batches say the same
            log.exception("the journal is not folded")
            self._fold_at_seq = self._store.last_seq + FOLD_AGAIN_AFTER
            return
        self._note_fold(folded_seq)
        self._most_handled_s = max(FOLD_AFTER_S, TIMES_A_FOLD * (time.thread_time() - began_s))

    def _note_fold(self, folded_seq: int) -> None:
        self._fold_at_seq = folded_seq + max(FOLD_AFTER, self._board.num_open)
