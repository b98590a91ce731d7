"""Turns as a feed tells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from swell.core.explanations import TurnChanges
from swell.live.turns import Turn, TurnDurations, TurnNews
from swell.model.calendar import Calendar
from swell.model.event import AnyEvent
from swell.model.view import JobView, Story


def turn(
    *changed: JobView,
    ended: Sequence[JobView] = (),
    stories: Sequence[tuple[str, Story]] = (),
    batch: Sequence[AnyEvent] = (),
    now_s: float = 0.0,
    **news: Any,
) -> Turn:
    """One of which all that is not said is empty."""
    changes = TurnChanges(now_s=now_s, views=list(changed), outlook=None, explained=frozenset(), up_s={})
    known: dict[str, Any] = {"calendar": Calendar(), "warned": ()}
    return Turn(
        batch=batch,
        news=TurnNews(now_s=now_s, changes=[changes], ended=ended, stories=stories, **(known | news)),
        took=TurnDurations(journal_s=0.001, decision_s=0.002, turn_s=0.004),
    )
