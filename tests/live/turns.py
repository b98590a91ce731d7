"""Turns as a feed tells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from swell.core.explanations import ToldJob, TurnChanges
from swell.live.board import TurnResult
from swell.live.counters import Turn
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
    changes = TurnChanges(now_s, [ToldJob(view, None) for view in changed], None)
    made = Turn(batch=batch, begun_s=1.0, written_s=1.001, decided_s=1.003, ended_s=1.004)
    made.news = TurnResult(now_s=now_s, changes=[changes], ended=ended, stories=stories, **news)
    return made
