"""News of jobs for addresses: from the turns of the head to their delivery."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from swell.live.turn_feed import Turn
from swell.live.webhooks.counts import WebhookCounts
from swell.live.webhooks.message import WebhookMessage
from swell.live.webhooks.sender import Note, Sender
from swell.live.webhooks.spool import Spool
from swell.live.webhooks.webhook_events import OpenJobs, WebhookChoice, WebhookEvents
from swell.model.calendar import Calendar
from swell.model.webhook import Webhook

#: Turns without news after which it is noted that they were looked through.
NOTE_AFTER = 100

log = logging.getLogger("swell.webhooks")


class Webhooks:
    """Listens to turns. What it has found is on disk before the journal may forget what it was found in."""

    def __init__(
        self,
        folder: Path,
        key: bytes,
        everywhere: Sequence[Webhook],
        of_job: Callable[[str], Webhook | None],
        note: Note = lambda message, what, at_s: None,
    ) -> None:
        """`note`: hears of deliveries that did not succeed at once; see `DeliveryNotes.note`."""
        self._spool = Spool(folder)
        self._sender = Sender(self._spool, key, note)
        self._finder = WebhookEvents(WebhookChoice(everywhere, of_job), time.time)
        self._calendar: Callable[[], Calendar] = Calendar
        self._open_jobs: OpenJobs = lambda is_wanted: (0.0, [])
        self._now_s: Callable[[], float] = lambda: 0.0
        self._noted_seq = self._seq = 0

    # ------------------------------------------------------------ before the first turn
    def begin(
        self,
        open_jobs: OpenJobs,
        now_s: Callable[[], float],
        calendar: Callable[[], Calendar],
        last_seq: int,
    ) -> int:
        """Where the board and the clocks are. Returns the last batch that an earlier daemon looked through:
        later ones are to be caught up on.
        """
        self._open_jobs, self._now_s, self._calendar = open_jobs, now_s, calendar
        progress = self._spool.read_progress()
        self._noted_seq = self._seq = last_seq if progress is None else min(progress.seq, last_seq)
        if progress is None:
            self._note()
        else:
            self._finder.go_on(progress)
        return self._seq

    def catch_up(self, turn: Turn) -> None:
        """A turn of an earlier daemon, which may not have come to tell of it."""
        self._tell(self._finder.of_ends(turn), turn.seq)

    def start(self) -> None:
        self._sender.start()

    # ------------------------------------------------------------ the feed's thread
    def hear(self, turn: Turn) -> None:
        """See `TurnListener`."""
        self._tell(self._finder.of_ends(turn), turn.seq)
        self.look()

    def look(self) -> None:
        """See `TurnListener`."""
        found = self._finder.of_open_jobs(self._now_s(), self._open_jobs, self._calendar())
        self._tell(found, self._seq)

    def stop(self) -> None:
        """No more turn is heard."""
        self._note()
        self._sender.stop()

    # ------------------------------------------------------------ any thread
    @property
    def counts(self) -> WebhookCounts:
        return self._sender.counts

    def _tell(self, messages: Sequence[WebhookMessage], seq: int) -> None:
        self._seq = seq
        for message in messages:
            try:
                self._spool.put(message)
            except OSError as error:  # on a full disk it is not kept over a restart
                log.warning("%s of job %s is not on disk: %s", message.event, message.job_id, error.strerror)
            self._sender.add(message)
        if messages or seq >= self._noted_seq + NOTE_AFTER:
            self._note()

    def _note(self) -> None:
        try:
            self._spool.write_progress(self._finder.progress(self._seq))
            self._noted_seq = self._seq
        except OSError as error:
            log.warning("how far news were told is not on disk: %s", error.strerror)
