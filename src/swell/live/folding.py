"""When the batches of a journal are folded into one state, and what goes to the archive."""

from __future__ import annotations

import logging
import time

from swell.core.platform_core import PlatformCore
from swell.live.board import ViewBoard
from swell.live.head_questions import HeadQuestions
from swell.live.ports import Store
from swell.live.retrying_journal import RetryingJournal
from swell.live.turn_feed import TurnDurations, TurnFeed
from swell.model.errors import Unavailable, Unwritable

#: After so many batches, or as many as there are open jobs, they are folded into one state: what a fold costs
#: is in proportion to these, and so it costs each turn the same. Where it fails, again after so many more.
#: A platform that is killed handles its batches again: sooner, therefore, if decisions have computed for so
#: many seconds, and so many times as long as a fold. What a turn has waited for is not waited for again.
FOLD_AFTER = 500
FOLD_AFTER_S, TIMES_A_FOLD = 2.0, 20
FOLD_AGAIN_AFTER = 50
#: So many stories go to the archive together: those of a whole fold would hold the head up.
STORIES_TOGETHER = 500
#: A turn is heard within milliseconds; a fold, which takes tens of them, waits for that so long.
HEARD_WITHIN_S = 0.5
#: A request to prune waits for that so long, and the head does not.
PRUNABLE_WITHIN_S = 10.0

log = logging.getLogger("swell.platform")


class JournalFolds:
    """Folds the journal of a running platform. Called by the head's thread, except `archive_all`."""

    def __init__(
        self,
        core: PlatformCore,
        store: Store,
        journal: RetryingJournal,
        board: ViewBoard,
        feed: TurnFeed,
        questions: HeadQuestions,
    ) -> None:
        self._core, self._store, self._journal = core, store, journal
        self._board, self._feed, self._questions = board, feed, questions
        self._fold_at_seq = 0
        self._handled_s, self._most_handled_s = 0.0, FOLD_AFTER_S  #: since the last fold, and until the next

    def begin(self, folded_seq: int, replayed_s: float) -> None:
        """The head is where the journal ends, which was folded last after that batch.

        Args:
            replayed_s: that were computed to handle the batches since then again.
        """
        self._note_fold(folded_seq)
        self._handled_s = replayed_s

    def end_turn(self, took: TurnDurations) -> None:
        """Fold, or archive stories, where it is time."""
        self._handled_s += took.computed_s
        if self._handled_s >= self._most_handled_s:
            self._handled_s, self._fold_at_seq = 0.0, self._store.last_seq
        if self._store.last_seq >= self._fold_at_seq:
            self._fold_if_heard()
        elif self._board.num_stories >= STORIES_TOGETHER:
            self._archive_stories()

    def _fold_if_heard(self) -> bool:
        """Fold if all listeners have heard every turn, else try again later; returns whether they have.

        After a kill, listeners are told what is replayed from batches, but nothing that was folded.
        """
        is_heard = self._feed.is_heard_within(HEARD_WITHIN_S)
        if is_heard:
            self.fold()
        else:
            self._fold_at_seq = self._store.last_seq + FOLD_AGAIN_AFTER
        return is_heard

    def fold(self) -> None:
        """What cannot be folded now, because the disk is full, stays in batches: they say the same."""
        began_s = time.thread_time()  # how long the disk takes says nothing of a replay
        ended, stories = self._board.drain()
        try:
            folded_seq = self._store.fold(self._core.save(), ended, stories)
        except Unwritable as error:
            log.warning("the journal is not folded: %s", error)
            self._fold_at_seq = self._store.last_seq + FOLD_AGAIN_AFTER
            return
        except Exception:  # as of a policy that cannot be saved: batches say the same
            log.exception("the journal is not folded")
            self._fold_at_seq = self._store.last_seq + FOLD_AGAIN_AFTER
            return
        self._note_fold(folded_seq)
        self._board.folded(ended)
        self._handled_s = 0.0
        self._most_handled_s = max(FOLD_AFTER_S, TIMES_A_FOLD * (time.thread_time() - began_s))

    def _note_fold(self, folded_seq: int) -> None:
        self._fold_at_seq = folded_seq + max(FOLD_AFTER, self._board.num_open)

    def _archive_stories(self) -> None:
        """Those that cannot be kept now wait for the next turn; a replay would tell them again."""
        try:
            self._store.add_stories(self._board.all_stories())
        except Unwritable as error:
            log.warning("stories are not archived: %s", error)
        else:
            self._board.forget_stories()

    def archive_all(self) -> None:
        """Jobs that have ended since the last fold go to the archive, if the journal can be written.

        Called by any other thread. Raises Unavailable.
        """
        if self._journal.why:
            return
        # Waited for here first, so that there is little left for which the head waits.
        if not (self._feed.is_heard_within(PRUNABLE_WITHIN_S) and self._questions.ask(self._fold_if_heard)):
            raise Unavailable(
                "no job is pruned: what lately became of jobs is not yet written down for webhooks, as on a "
                "slow disk; try again"
            )
