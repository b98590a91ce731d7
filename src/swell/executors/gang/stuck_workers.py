"""What a gang does about workers that keep the others waiting for too long.

They are killed if one that waits has the state: the others go on without them, and all that is lost is the
step under way.
"""

from __future__ import annotations

from swell.executors.gang import recovery, shutdown, workers
from swell.executors.gang.hang_detection import describe, is_deadlocked, waited_for
from swell.executors.gang.member import Member
from swell.executors.gang.runtime import GangRuntime
from swell.model.event import Outcome
from swell.model.lengths import span


def kill_stuck(live: GangRuntime) -> None:
    """Kill stuck workers, or break off a deadlocked group. To be called several times a second."""
    limit_s = live.gang.hang_detector.limit_s(live.timeouts.stuck_s)
    has_started = live.gang.membership.has_started
    stuck = waited_for(live.roster, limit_s, _is_ordered(live, limit_s), has_started)
    if stuck:
        who = describe(stuck, live.gang.formation.group)
        _strike(live, stuck, f"{who}; others had waited for it for {span(limit_s)}, and it was killed")
    elif recovery.is_at_rest(live, limit_s) and is_deadlocked(live.roster, limit_s):
        why = f"all workers had waited for each other for {span(limit_s)}: their group was broken off"
        _strike(live, [], why)
        if not live.gang.is_ending:
            recovery.break_off(live, why)


def _is_ordered(live: GangRuntime, limit_s: float) -> bool:
    """A suspend has waited for so long, as long as a worker's peers would."""
    membership = live.gang.membership
    change = membership.change if membership.is_suspending else None
    return change is not None and live.now_s - change.since_s >= limit_s


def _strike(live: GangRuntime, stuck: list[Member], why: str) -> None:
    """Do without the stuck workers. The script is at fault if that comes repeatedly at the same step."""
    steps = live.gang.steps
    remedy = "if that is its ordinary work, raise stuck_s: `swell up --set stuck_s=...`"
    if live.gang.hang_detector.strike(steps):
        text = f"after step {steps}, {live.gang.hang_detector.num_strikes} times in a row: {why}"
        shutdown.end(live, Outcome.FAILED, f"{text}; {remedy}")
    else:
        live.replies.warn(f"{why}; {remedy}")
    workers.kill(live, stuck, why)
