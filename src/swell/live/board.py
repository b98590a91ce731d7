"""What everybody may read while the head works: replaced as a whole after each turn.

Jobs and their stories are in head time, nodes in calendar time.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from swell.core.explanations import PlanEstimate, ToldJob, TurnChanges
from swell.core.platform_core import PlatformCore
from swell.core.setbacks import NodeLossCounts
from swell.model.booking import Booking
from swell.model.calendar import Calendar
from swell.model.cluster import Cluster
from swell.model.event import NodeLost, NodeTested, NodeWarned
from swell.model.node import islands_text
from swell.model.usage import SlowDevice
from swell.model.view import JobView, LostNode, NodeLeaving, NodeView, Story

#: Turns of which it is known which jobs they changed. A reader that was away for longer reads all jobs.
TURNS_KEPT = 1024
#: Stories of all jobs that are shown together.
STORIES_SHOWN = 200
#: Of a kind of device for which none was made.
NO_PLAN = (None, 0)
#: An open job, without the plan of its kind, and the turn that changed it: what was said since the plan of
#: then is not so of a later one.
Entry = tuple[ToldJob, int]


class BoardChanges(NamedTuple):
    """What has changed since a reader has looked."""

    turn: int  #: with which it asks next time
    views: list[JobView]  #: complete ones of open jobs that changed, in no order
    archived: list[str]  #: jobs that have ended, to be found in the archive, or were pruned from there
    is_all: bool  #: the reader was away for too long: all views that there are, and `archived` is empty
    has_new_plan: bool  #: reasons and estimates of any open job may be others
    stories: list[tuple[str, Story]]  #: told since, by job, oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """What the head knows after a turn, and what came of the turn's batch, for people to see.

    Times are head time. It is never changed once it was posted.
    """

    now_s: float = 0.0
    calendar: Calendar = field(default_factory=Calendar)
    kinds: tuple[str, ...] = ()
    cluster: Cluster = field(default_factory=Cluster)
    num_stale: int = 0
    unknown_owner: Mapping[str, str] = field(default_factory=dict)
    warned: Mapping[str, NodeWarned] = field(default_factory=dict)  #: nodes that get no more work, by name
    tests: Mapping[str, NodeTested] = field(default_factory=dict)  #: the latest of each node, by name
    slow_devices: Sequence[SlowDevice] = ()
    ends_s: Mapping[str, float] = field(default_factory=dict)
    lost_nodes: Sequence[NodeLost] = ()
    bookings: Mapping[str, Booking] = field(default_factory=dict)
    reclaims: NodeLossCounts = field(default_factory=NodeLossCounts)
    ended: Sequence[JobView] = ()
    changes: Sequence[TurnChanges] = ()  #: of open jobs, by core
    stories: Sequence[tuple[str, Story]] = ()

    @classmethod
    def of(cls, core: PlatformCore) -> TurnResult:
        """What is new with the core after the turn that it has just made."""
        return cls(
            now_s=core.now_s,
            calendar=core.calendar,
            kinds=core.kinds,
            cluster=core.cluster,
            num_stale=core.num_stale,
            unknown_owner=core.unknown_owner,
            warned=core.warned,
            tests=core.tests,
            slow_devices=core.slow_devices,
            ends_s=core.ends_s,
            lost_nodes=core.lost_nodes,
            bookings={one.id: one for one in core.bookings},
            reclaims=core.reclaims,
            ended=core.ended_views(),
            changes=core.changes(),
            stories=core.stories(),
        )

    @property
    def changed(self) -> list[JobView]:
        """Open jobs of which something is new, without what the plan says of them."""
        return [job.view for of_core in self.changes for job in of_core.jobs]


class ViewBoard:
    """Written by the head's thread, but for `post_pruned`, and read by any.

    A turn writes what changed. What its plan says of each job is worked out by the thread that reads it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)  #: there is another turn
        self._posted = TurnResult()
        self._open: dict[str, Entry] = {}
        self._places: list[tuple[float, str]] = []  # of these in lists, in order
        #: The latest plans by kind of device, and since which turn.
        self._plans: dict[str, tuple[PlanEstimate | None, int]] = {}
        self._turn = 0
        self._planned_turn = 0  #: of the latest plan
        self._touched: deque[tuple[int, tuple[str, ...]]] = deque(maxlen=TURNS_KEPT)  # jobs, by turn
        self._stories: deque[tuple[int, str, Story]] = deque(maxlen=STORIES_SHOWN)  # by turn

    def post(self, news: TurnResult) -> None:
        """Show what the head knows after the turn it has just made. Jobs that have ended are in the store."""
        with self._lock:
            self._turn += 1
            self._touched.append((self._turn, tuple(view.id for view in (*news.ended, *news.changed))))
            for view in news.ended:
                if self._open.pop(view.id, None) is not None:
                    del self._places[bisect_left(self._places, _place(view))]
            for of_core in news.changes:
                for job in of_core.jobs:
                    if job.view.id not in self._open:
                        insort(self._places, _place(job.view))
                    self._open[job.view.id] = ToldJob(job.view, None, job.is_explained, job.up_s), self._turn
                if of_core.outlook is not self._plans.get(of_core.kind, NO_PLAN)[0]:
                    self._planned_turn = self._turn
                    self._plans[of_core.kind] = of_core.outlook, self._turn
            self._stories.extend((self._turn, job_id, story) for job_id, story in news.stories)
            self._posted = news
            self._news.notify_all()

    def post_pruned(self, job_ids: Sequence[str]) -> None:
        """Record that ended jobs were pruned from the archive, so readers drop them. Called by any thread."""
        with self._lock:
            self._turn += 1
            self._touched.append((self._turn, tuple(job_ids)))
            self._news.notify_all()

    def wait_for_news(self, since: int, most_s: float) -> bool:
        """Whether there was a turn after turn `since`; waits for one, but no longer than that."""
        with self._news:
            return self._news.wait_for(lambda: self._turn > since, most_s)

    def _with_plans(self, entries: Iterable[Entry]) -> list[ToldJob]:
        """What is said by now. The caller has the lock; it completes the views without it."""
        told = []
        for job, turn in entries:
            outlook, since = self._plans.get(job.view.kind, NO_PLAN)
            about = (job.is_explained, job.up_s) if turn >= since else ()
            told.append(ToldJob(job.view, outlook, *about))
        return told

    def job(self, job_id: str) -> JobView | None:
        """An open job, with head times; None for any other job."""
        with self._lock:
            now_s = self._posted.now_s
            told = self._with_plans([entry] if (entry := self._open.get(job_id)) else [])
        return told[0].complete(now_s) if told else None

    def jobs(self, is_wanted: Callable[[JobView], bool] = lambda view: True, limit: int = 0) -> list[JobView]:
        """Jobs that run or wait, oldest first.

        Args:
            is_wanted: may look at anything but a reason or an estimate.
            limit: the newest so many of them; 0: all.
        """
        with self._lock:
            now_s, told = self._posted.now_s, self._with_plans(self._newest(is_wanted, limit))
        return [one.complete(now_s) for one in told]

    def _newest(self, is_wanted: Callable[[JobView], bool], limit: int) -> list[Entry]:
        """Looks at no more jobs than it takes to find so many."""
        entries = (self._open[job_id] for _, job_id in reversed(self._places))
        return list(islice((one for one in entries if is_wanted(one[0].view)), limit or None))[::-1]

    def changes(self, since: int, also: Iterable[str] = ()) -> BoardChanges:
        """What became of jobs after turn `since`; 0: all.

        Args:
            also: jobs that are to be told of as well, if they are open.
        """
        with self._lock:
            turn, now_s, touched = self._turn, self._posted.now_s, self._touched_since(since)
            ids = set(self._open) if touched is None else touched
            archived = [job_id for job_id in ids if job_id not in self._open]
            told = self._with_plans(self._open[job_id] for job_id in {*ids, *also} if job_id in self._open)
            stories = [(job_id, story) for at_turn, job_id, story in self._stories if at_turn > since]
            has_new_plan = self._planned_turn > since
        views = [one.complete(now_s) for one in told]
        return BoardChanges(turn, views, archived, touched is None, has_new_plan, stories)

    def _touched_since(self, since: int) -> set[str] | None:
        """None: that is too long ago to be known."""
        if since < self._turn - len(self._touched):
            return None
        ids: set[str] = set()
        for turn, touched in reversed(self._touched):
            if turn <= since:
                break
            ids.update(touched)
        return ids

    def open_jobs(
        self, is_wanted: Callable[[JobView], bool] = lambda view: True
    ) -> list[tuple[JobView, float | None]]:
        """Open jobs, each with its end by the plan.

        The views are without what the plan says; that takes a tenth of the time of `jobs`.

        Args:
            is_wanted: may look at anything but a reason or an estimate.
        """
        with self._lock:
            told = self._with_plans(one for one in self._open.values() if is_wanted(one[0].view))
        return [(one.view, one.planned_s) for one in told]

    def views(self) -> list[JobView]:
        """Open jobs, without what the plan says of them."""
        with self._lock:
            return [job.view for job, _ in self._open.values()]

    @property
    def num_open(self) -> int:
        return len(self._open)

    @property
    def latest(self) -> TurnResult:
        """What the head knew after its latest turn."""
        return self._posted

    @property
    def calendar(self) -> Calendar:
        return self._posted.calendar

    def devices_by_kind(self) -> dict[str, int]:
        """Devices of nodes that take work, of each kind that there is, or was: 0 of the latter."""
        posted = self._posted
        nums = dict.fromkeys(posted.kinds, 0)
        for node in posted.cluster.nodes:
            if node.name not in posted.warned:
                nums[node.kind] = nums.get(node.kind, 0) + len(node.devices)
        return nums

    def lost_nodes(self) -> tuple[LostNode, ...]:
        """Those lost lately that have not joined again, the latest last."""
        lost, time_of = self._posted.lost_nodes, self._posted.calendar.time_of
        return tuple(LostNode(name=one.name, lost_s=time_of(one.at_s), cause=one.cause) for one in lost)

    def nodes(self) -> tuple[NodeView, ...]:
        """The nodes after the last scheduling cycle, with the holder of each device."""
        with self._lock:
            posted = self._posted
            held = {device: job.view.id for job, _ in self._open.values() for device in job.view.devices}
        owner, calendar = {**held, **posted.unknown_owner}, posted.calendar
        return tuple(
            NodeView(
                name=node.name,
                rack=node.rack,
                kind=node.kind,
                is_borrowed=node.is_borrowed,
                devices={device: owner.get(device) for device in node.devices},
                cores=node.cores,
                address=node.address,
                lacks=node.lacks,
                leaving=_leaving(posted.warned.get(node.name), calendar),
                until_s=_time_of(posted.ends_s.get(node.name), calendar),
                tests=test.results if (test := posted.tests.get(node.name)) else (),
                tested_s=calendar.time_of(test.at_s) if test else None,
                slow={one.device: one.why for one in posted.slow_devices if one.node == node.name},
                islands=islands_text(node.islands),
            )
            for node in posted.cluster.nodes
        )


def _leaving(warned: NodeWarned | None, calendar: Calendar) -> NodeLeaving | None:
    if warned is None:
        return None
    since_s, until_s = calendar.time_of(warned.at_s), _time_of(warned.until_s, calendar)
    return NodeLeaving(since_s=since_s, until_s=until_s, why=warned.why, is_ill=warned.is_ill)


def _time_of(at_s: float | None, calendar: Calendar) -> float | None:
    return None if at_s is None else calendar.time_of(at_s)


def _place(view: JobView) -> tuple[float, str]:
    """Sort key of a view: what `job_query.place` orders by, in less memory."""
    return view.submitted_s, view.id
