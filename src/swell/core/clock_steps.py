"""The machine's clock was set: deadlines are times of day, so they come nearer or move away."""

from __future__ import annotations

from swell.core.broken_promises import befall_all
from swell.core.state import HeadState
from swell.model.calendar import TOLD_STEP_S, Calendar
from swell.model.lengths import relative, span


def follow(state: HeadState, calendar: Calendar) -> None:
    """Measure deadlines by this calendar from now on."""
    step_s = calendar.offset_s - state.calendar.offset_s
    state.calendar = calendar
    if step_s == 0.0:
        return
    if step_s > 0.0:
        befall_all(state, "clock")
    for record in state.records.values():
        record.calendar_offset_s = calendar.offset_s
        deadline_s = record.planned_deadline_s
        if deadline_s is not None:
            state.touch(record)
            if abs(step_s) > TOLD_STEP_S:
                state.tell(record, "clock", _told(deadline_s - state.now_s, step_s))


def _told(left_s: float, step_s: float) -> str:
    way = "forward" if step_s > 0 else "back"
    due = f"is now {relative(left_s)}" if left_s > 0 else f"passed {relative(left_s)}"
    return f"the machine's clock was set {way} by {span(step_s)}: the deadline {due}"
