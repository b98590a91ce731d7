"""Finds what addresses are to be told: in turns of the head, and now and then in jobs, groups and nodes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import msgspec

from swell.live.board import TurnResult
from swell.live.webhook_messages import (
    FAILED,
    NodeNews,
    WebhookMessage,
    json_of_job,
    json_of_node,
    latest_run,
    message_to,
    text_of_group,
    text_of_job,
    text_of_node,
)
from swell.model.calendar import Calendar
from swell.model.deadline_state import DeadlineState, deadline_state
from swell.model.job_query import JobQuery
from swell.model.view import JobView
from swell.model.webhook import Webhook, WebhookEvent

EVENTS = {DeadlineState.AT_RISK: WebhookEvent.AT_RISK, DeadlineState.LATE: WebhookEvent.MISSED}
ENDS = (WebhookEvent.FAILED, WebhookEvent.FINISHED)
#: A start, or news of a node, is told so long after it at most.
STARTED_S, OF_NODE_S = 600.0, 3600.0
#: The end of a session is told so long before its limit, or a quarter of its time if that is shorter.
ENDING_S = 600.0
#: Services are told once in so long of what befalls the jobs of a group, and of its end.
GROUP_EVERY_S = 600.0

#: Wanted open jobs with their ends by the plan; see `ViewBoard.open_jobs`.
OpenJobs = Callable[[Callable[[JobView], bool]], list[tuple[JobView, float | None]]]
#: Keeps messages and delivers those that it has not had before; whether there are any.
Put = Callable[[Sequence[WebhookMessage]], bool]


@dataclass(frozen=True, slots=True)
class Addresses:
    """Those that are told of more than one job."""

    everywhere: Sequence[Webhook] = ()  #: of all jobs, and of nodes
    of_user: Callable[[str], Sequence[Webhook]] = lambda user: ()  #: of all jobs of a user; never raises


NO_ADDRESSES = Addresses()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewsSource:
    """What is looked at. Times are head times."""

    now_s: Callable[[], float] = time.time
    calendar: Callable[[], Calendar] = Calendar
    open_jobs: OpenJobs = lambda is_wanted: []
    ended_jobs: Callable[[JobQuery], list[JobView]] = lambda query: []
    node_news: Callable[[], Sequence[NodeNews]] = tuple


class NewsFinder:
    """Makes messages. One that is found again has the same id.

    Args:
        addresses: of more than one job.
        of_job: those of a job that has any; may take a millisecond, and never raises.
    """

    def __init__(self, addresses: Addresses, of_job: Callable[[str], Sequence[Webhook]]) -> None:
        self.addresses, self._of_job, self.source = addresses, of_job, NewsSource()
        self._told = set[tuple[str, str]]()  #: jobs and nodes, each with what the latest look has found
        #: By group and user: the latest job that has ended, if the group is to be looked at for it.
        self._groups = dict[tuple[str, str], JobView]()
        self._failures_due_s = dict[tuple[str, str], float]()  #: likewise: failures are not told before that

    def of_ends(self, news: TurnResult) -> list[WebhookMessage]:
        """What a turn brings: news of jobs that have ended."""
        calendar, found = news.calendar, list[WebhookMessage]()
        for view in news.ended:
            at_s = news.now_s if view.finished_s is None else view.finished_s
            keys = {WebhookEvent.FAILED: "failed"} if view.phase in FAILED else {}
            if view.kept is False:
                keys[WebhookEvent.MISSED] = _key(WebhookEvent.MISSED, view.deadline_s, calendar)
            found += self._of_job_news(keys | {WebhookEvent.FINISHED: "finished"}, view, calendar, at_s)
            if view.group and any(hook.is_service for hook, *_ in self._hooks(view, ENDS)):
                self._groups[view.group, view.user] = view
        return found

    def find_news(self, put: Put) -> None:
        """Find news that no turn brings."""
        source = self.source
        now_s, calendar = source.now_s(), source.calendar()
        found, messages = set[tuple[str, str]](), list[WebhookMessage]()
        has_address = cache(lambda user: bool(self.addresses.everywhere or self.addresses.of_user(user)))
        for view, expected_s in source.open_jobs(lambda view: view.webhook or has_address(view.user)):
            for event, at_s in _open_news(view, now_s, expected_s):
                key = _key(event, at_s, calendar)
                found.add((view.id, key))
                if (view.id, key) not in self._told:
                    expected = msgspec.structs.replace(view, estimated_finish_s=expected_s)
                    messages += self._of_job_news({event: key}, expected, calendar, now_s)
        for news in source.node_news():
            key = _key(news.event, news.at_s, calendar)
            found.add((news.name, key))
            if (news.name, key) not in self._told and news.at_s >= now_s - OF_NODE_S:
                for hook in self.addresses.everywhere:
                    if news.event in hook.on:
                        body = (text_of_node if hook.is_service else json_of_node)(news, calendar)
                        named = f"node {news.name}", key
                        messages.append(message_to(hook, news.event, body, named))
        put(messages)
        self._told = found
        for name, view in list(self._groups.items()):
            self._look_at_group(name, view, now_s, put)

    def _look_at_group(self, name: tuple[str, str], ended: JobView, now_s: float, put: Put) -> None:
        """Tell services of a group that has ended, or, once in a while, of which jobs have failed."""
        still_open = [one for one, _ in self.source.open_jobs(lambda one: (one.group, one.user) == name)]
        is_behind = ended.id in (one.id for one in still_open)  # the turn that ended it is not over
        if is_behind or (still_open and now_s < self._failures_due_s.get(name, now_s)):
            return
        in_archive = self.source.ended_jobs(JobQuery(group=ended.group))
        of_user = [one for one in in_archive if one.user == ended.user] or [ended]  # which was pruned
        jobs = latest_run([*of_user, *still_open])
        num_failed = sum(one.phase in FAILED for one in jobs)
        events = [WebhookEvent.FAILED] * bool(num_failed) + [WebhookEvent.FINISHED] * (not still_open)
        named = f"group of {jobs[0].id}", f"failed {num_failed}" if still_open else "finished"
        text = text_of_group(jobs, self.source.calendar(), now_s)
        hooks = [one for one in self._hooks(ended, events) if one[0].is_service]
        self._failures_due_s.pop(name, None)
        if put([message_to(*one[:2], text, named, ended, one[2]) for one in hooks]) and still_open:
            self._failures_due_s[name] = now_s + GROUP_EVERY_S
        if self._groups[name] is ended:  # no other job of it has ended meanwhile
            del self._groups[name]

    def _of_job_news(
        self, keys: Mapping[WebhookEvent, str], view: JobView, calendar: Calendar, at_s: float
    ) -> Iterator[WebhookMessage]:
        """Messages about one job.

        Args:
            keys: of what has happened to it at once, the gravest first: services are told of that alone.
        """
        for hook, event, is_own in self._hooks(view, keys):
            named, body = (view.id, keys[event]), json_of_job
            if hook.is_service:
                body = text_of_job
                is_summed_up = view.phase.is_end and not {*ENDS}.isdisjoint(hook.on)
                if view.group and (is_summed_up or event is WebhookEvent.STARTED):
                    continue  # the group is told of as a whole
                if view.group:
                    named = f"{view.group}\n{view.user}", f"{event} {at_s // GROUP_EVERY_S:.0f}"
            yield message_to(hook, event, body(event, view, calendar, at_s), named, view, is_own)

    def _hooks(
        self, view: JobView, events: Iterable[WebhookEvent]
    ) -> Iterable[tuple[Webhook, WebhookEvent, bool]]:
        """Which address is told which of these, and whether the job's owner has named it."""
        own = (*self.addresses.of_user(view.user), *(self._of_job(view.id) if view.webhook else ()))
        found = dict[tuple[str, WebhookEvent], tuple[Webhook, WebhookEvent, bool]]()
        for hooks, is_own in ((self.addresses.everywhere, False), (own, True)):
            for hook in hooks:
                wanted = [event for event in events if event in hook.on]
                for event in wanted[:1] if hook.is_service else wanted:
                    found[hook.url, event] = hook, event, is_own
        return found.values()


def node_news(latest: TurnResult) -> list[NodeNews]:
    """Nodes that were lost lately, and those that are ill or have a slow device."""
    lost = [NodeNews(WebhookEvent.NODE_LOST, one.name, one.at_s, one.cause) for one in latest.lost_nodes]
    ill = (one for one in latest.warned.values() if one.is_ill)
    told = [NodeNews(WebhookEvent.NODE_ILL, one.name, one.at_s, one.why) for one in ill]
    slow = defaultdict[tuple[str, float], list[str]](list)
    for one in latest.slow_devices:
        slow[one.node, one.since_s].append(f"device {one.device} {one.why}")
    told += [NodeNews(WebhookEvent.NODE_SLOW, *at, "; ".join(causes)) for at, causes in slow.items()]
    return lost + told


def _open_news(
    view: JobView, now_s: float, expected_s: float | None
) -> Iterator[tuple[WebhookEvent, float | None]]:
    """What is so of an open job, and the time that tells one such news from the next."""
    if (of_deadline := EVENTS.get(deadline_state(view, now_s, expected_s))) is not None:
        yield of_deadline, view.deadline_s
    if view.stalled_since_s is not None:
        yield WebhookEvent.STALLED, view.stalled_since_s
    if view.idle_since_s is not None:
        yield WebhookEvent.IDLE, view.idle_since_s
    if view.started_s is not None and now_s < view.started_s + STARTED_S:
        yield WebhookEvent.STARTED, view.started_s
    if (terms := view.fixed) is not None and terms.is_session and view.started_s is not None:
        end_s = view.started_s + terms.time_s
        if end_s - min(ENDING_S, terms.time_s / 4) <= now_s:
            yield WebhookEvent.SESSION_ENDING, end_s


def _key(event: WebhookEvent, at_s: float | None, calendar: Calendar) -> str:
    """Names one time of day: another deadline is news again, a step of the machine's clock is not."""
    return f"{event} {round((at_s or 0.0) + calendar.offset_s)}"
