"""What a gang does about workers that say nothing: they are killed.

A worker may be silent because it was stopped, or because it waits in a step of a group that has broken.
"""

from __future__ import annotations

from swell.executors.gang import workers
from swell.executors.gang.runtime import GangRuntime
from swell.executors.gang.timeouts import overdue


def kill_silent(live: GangRuntime) -> None:
    """Kill silent workers, and those unaware of a broken group. To be called several times a second."""
    for member in live.members.values():
        verdict = overdue(member, live.job.spec.entry, live.now_s, live.timeouts, live.is_stopped)
        if verdict is not None and not member.is_killed:
            member.is_at_fault |= verdict.is_fault_of_script
            workers.kill(live, [member], verdict.why)
    _kill_unaware(live)


def _kill_unaware(live: GangRuntime) -> None:
    """A member that waits in a step of a broken group should know by now; one in its script will."""
    since_s, limit_s = live.gang.setback.since_s, live.timeouts.notice_s
    if since_s is None or live.now_s - since_s <= limit_s:
        return
    unaware = live.gang.setback.unaware(live.roster)
    deaf = [member for member in unaware if member.waits_s >= limit_s or member.heartbeat is None]
    workers.kill(live, deaf, "a worker did not notice that its group had broken, and was killed")
