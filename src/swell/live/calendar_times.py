"""What people see is in calendar time; the head, its journal and its archive are in head time."""

from __future__ import annotations

import msgspec

from swell.model.calendar import Calendar
from swell.model.view import JobView, LostNode, NodeView, Story


def shown_job(view: JobView, calendar: Calendar) -> JobView:
    """The view with times of the calendar.

    A deadline moves with the end of its job: what is shown agrees with whether it was kept.
    """
    if calendar.is_head_time:
        return view
    last_s = calendar.offset_s if view.finished_s is None else calendar.offset_at(view.finished_s)
    return msgspec.structs.replace(
        view,
        submitted_s=calendar.time_of(view.submitted_s),
        started_s=None if view.started_s is None else calendar.time_of(view.started_s),
        finished_s=None if view.finished_s is None else view.finished_s + last_s,
        deadline_s=None if view.deadline_s is None else view.deadline_s + last_s,
        asked_deadline_s=None if view.asked_deadline_s is None else view.asked_deadline_s + last_s,
        counter_offer_s=None if view.counter_offer_s is None else view.counter_offer_s + last_s,
        estimated_finish_s=None if view.estimated_finish_s is None else view.estimated_finish_s + last_s,
        retry_s=None if view.retry_s is None else view.retry_s + last_s,
        share_changes=None if view.share_changes is None else shown_story(view.share_changes, calendar),
        sizes=tuple((calendar.time_of(at_s), workers) for at_s, workers in view.sizes),
        resize_history=tuple(
            msgspec.structs.replace(resize, at_s=calendar.time_of(resize.at_s))
            for resize in view.resize_history
        ),
    )


def shown_story(story: Story, calendar: Calendar) -> Story:
    """The same line with its head time converted to calendar time."""
    if calendar.is_head_time:
        return story
    return msgspec.structs.replace(story, at_s=calendar.time_of(story.at_s))


def shown_node(node: NodeView, calendar: Calendar) -> NodeView:
    """The view with times of the calendar."""
    if calendar.is_head_time:
        return node
    leaving, until_s = node.leaving, node.until_s
    if leaving is not None:
        since_s, gone_s = calendar.time_of(leaving.since_s), leaving.until_s
        gone_s = None if gone_s is None else calendar.time_of(gone_s)
        leaving = msgspec.structs.replace(leaving, since_s=since_s, until_s=gone_s)
    until_s = None if until_s is None else calendar.time_of(until_s)
    return msgspec.structs.replace(node, leaving=leaving, until_s=until_s)


def shown_loss(node: LostNode, calendar: Calendar) -> LostNode:
    """The same with its time by the calendar."""
    return msgspec.structs.replace(node, lost_s=calendar.time_of(node.lost_s))
