"""How many spans did not reach the collector, and when that is told."""

from __future__ import annotations

import logging

log = logging.getLogger("swell.traces")


class SpanLosses:
    """Spans wait in a queue of limited length. That some are lost is told once, later how many were.

    A counter is changed by one thread: the one that offers spans, or the one that sends them.
    """

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._num_offered = self._num_dropped = 0  # by the thread that offers
        self._num_sent = self._num_delivered = self._num_failed = 0  # by the thread that sends, as the rest
        self._num_dropped_before = 0  #: when the request before succeeded
        self._num_over = 0  #: lost, and their number was told
        self._is_told = False

    def has_room(self) -> bool:
        """One is offered: whether it may wait. If not it is lost."""
        num_waiting = self._num_offered - self._num_dropped - self._num_sent
        self._num_offered += 1
        if num_waiting < self._most_waiting:
            return True
        self._num_dropped += 1
        return False

    def send(self, num_spans: int) -> None:
        """They have left the queue for a request."""
        self._num_sent += num_spans

    def fail(self, num_spans: int, fault: str) -> None:
        """The request for them did not succeed. `fault`: without secrets."""
        self._num_failed += num_spans
        self._begin(fault)

    def succeed(self, num_spans: int) -> None:
        """The request for them did. As long as the queue overflows between two requests, losses go on."""
        self._num_delivered += num_spans
        num_dropped = self._num_dropped
        is_full, self._num_dropped_before = num_dropped > self._num_dropped_before, num_dropped
        num_lost = self._num_failed + num_dropped - self._num_over
        if is_full:
            self._begin(f"{self._most_waiting} wait for a request, and no more may (OTEL_BSP_MAX_QUEUE_SIZE)")
        elif num_lost:
            log.warning("the collector takes spans again; %d were lost", num_lost)
            self._num_over, self._is_told = self._num_over + num_lost, False

    def end(self) -> None:
        """No more is sent: what waits is lost, too."""
        if num_lost := self._num_offered - self._num_delivered - self._num_over:
            log.warning("the platform ends; spans that were lost: %d", num_lost)
        self._is_told = True

    def _begin(self, why: str) -> None:
        if not self._is_told:
            log.warning("spans are lost until the collector takes them: %s", why)
        self._is_told = True
