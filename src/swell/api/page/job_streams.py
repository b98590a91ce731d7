"""Jobs that open pages show, looked at by one thread for as long as there are such pages."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from swell.api.caller import Caller
from swell.api.logs import LogOwner
from swell.api.page.event_ring import EventReader, EventRing
from swell.api.page.job_watch import JobChannel, JobHeard, JobWatch
from swell.live.board import BoardNews
from swell.live.metrics import MetricNews
from swell.live.platform import Platform

#: Between two looks. The more a look costs, the longer is the pause: looks are to take no more than
#: `MOST_SHARE` of a core, where `MOST_PAUSE_S` lets them.
LEAST_PAUSE_S, MOST_PAUSE_S, MOST_SHARE = 0.25, 1.5, 0.01
#: After the pause a turn of the head is waited for, but no longer than this: none tells of lines of the log.
NO_TURN_S = 0.5
STOP_WITHIN_S = 2.0
#: A job is followed for so long after its last page was left: that may be back, and go on where it was.
LINGER_S = 10.0
#: After a failure a job is left alone for so long.
JOB_FAILED_S = 10.0

log = logging.getLogger("swell.page")


class JobStreams:
    """Without a page of a job it costs nothing."""

    def __init__(self, control: Platform, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._control, self._clock_s = control, clock_s
        self._lock = threading.Lock()
        self._watches: dict[str, JobWatch] = {}
        self._turn = self._seq = 0
        self._looking = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def join(self, job_id: str, whose: LogOwner, caller: Caller, reader: EventReader) -> EventRing:
        """The ring of the events of a job's page, which the reader reads from now on. Raises UnknownJob."""
        may_change = caller.may_change_jobs_of(self._control.job(job_id).tenant)
        with self._lock:
            if job_id not in self._watches:
                self._watches[job_id] = JobWatch(self._control, job_id)
            watch = self._watches[job_id]
            if (whose, may_change) not in watch.channels:
                watch.channels[whose, may_change] = JobChannel(watch, whose, may_change)
            ring = watch.channels[whose, may_change].ring
            ring.join(reader)
            if self._stopped.is_set():
                ring.close()
            elif self._thread is None:
                self._begin()
        return ring

    def stop(self) -> None:
        """End all streams. What is being looked at is waited for, but not for long: a disk may hang."""
        self._stopped.set()
        with self._lock:
            rings = [channel.ring for watch in self._watches.values() for channel in watch.channels.values()]
        for ring in rings:
            ring.close()
        if self._looking.acquire(timeout=STOP_WITHIN_S):
            self._looking.release()

    # ------------------------------------------------------------ the thread
    def _begin(self) -> None:
        """Start the thread that follows the platform's news from now on."""
        self._turn, self._seq = self._control.news(0).turn, self._control.metric_news(None, ()).seq
        self._thread = self._started()

    def _started(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name="swell-job-pages", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        pause_s = LEAST_PAUSE_S
        while not self._stopped.wait(pause_s):
            next_pause_s = self._try_to_look()
            if next_pause_s is None:
                return
            pause_s = next_pause_s

    def _try_to_look(self) -> float | None:
        """Seconds until the next look; None: no page is left. After no failure pages stand still for ever."""
        try:
            self._control.wait_for_news(self._turn, NO_TURN_S)
            begun_s = time.thread_time()
            has_pages = self.look()
            return pause_after(time.thread_time() - begun_s) if has_pages else None
        except Exception:
            log.exception("open pages of jobs are not kept up to date for %g s", JOB_FAILED_S)
            with self._lock:
                watches = list(self._watches.values())
            for watch in watches:
                watch.lose()
            return JOB_FAILED_S

    def _watched(self) -> dict[str, JobWatch]:
        """Jobs that pages show, or have shown until now. The thread ends where there are none."""
        now_s = self._clock_s()
        with self._lock:
            for job_id, watch in list(self._watches.items()):
                for key, channel in list(watch.channels.items()):
                    if _is_left(channel, now_s):
                        del watch.channels[key]
                if not watch.channels:
                    del self._watches[job_id]
            if not self._watches:
                self._thread = None
            return dict(self._watches)

    def look(self) -> bool:
        """Tell pages what has changed. False: there are none."""
        watches = self._watched()
        if not watches:  # what is news is another thread's from now on, if there is one
            return False
        with self._looking:
            self._look(watches)
        return True

    def _look(self, watches: dict[str, JobWatch]) -> None:
        news = self._control.news(self._turn)
        metrics = self._control.metric_news(self._seq, watches)
        self._turn, self._seq = news.turn, metrics.seq
        for job_id, watch in watches.items():
            now_s = self._clock_s()
            if self._stopped.is_set():
                return
            if watch.rests_until_s is not None and watch.rests_until_s > now_s:
                continue
            is_all = watch.rests_until_s is not None
            try:
                watch.look(ALL_CHANGED if is_all else _heard(job_id, news, metrics), now_s)
                watch.rests_until_s = None
            except Exception:  # a folder that cannot be read is no reason for other pages to stand still
                log.exception("pages of job %s are not kept up to date for %g s", job_id, JOB_FAILED_S)
                watch.rests_until_s = now_s + JOB_FAILED_S
                watch.lose()


#: What came while it was left alone is not known.
ALL_CHANGED = JobHeard(is_told=True, again=None)


def _heard(job_id: str, news: BoardNews, metrics: MetricNews) -> JobHeard:
    return JobHeard(
        is_changed=news.has_new_plan or news.job_ids is None or job_id in news.job_ids,
        is_told=job_id in news.told,
        told=metrics.told.get(job_id),
        again=None if metrics.is_forgotten else metrics.again.get(job_id, ()),
    )


def _is_left(channel: JobChannel, now_s: float) -> bool:
    """Whether the channel has had no readers for so long that no page is expected to come back to it."""
    if channel.ring.has_readers:
        channel.left_s = None
    elif channel.left_s is None:
        channel.left_s = now_s
    return channel.left_s is not None and now_s - channel.left_s > LINGER_S


def pause_after(cost_s: float) -> float:
    """Seconds without a look after one that took so many of a core."""
    return min(max(cost_s / MOST_SHARE, LEAST_PAUSE_S), MOST_PAUSE_S)
