"""Workers that are to join prove themselves first: what a gang asks of whom, and when it waits no longer.

The leader of a gang that trains notes what a step comes to beside a checkpoint (`Witness`), and one of the
joiners computes that step from there (`Prove`). A gang that starts from a checkpoint has such a note of
earlier. A change without joiners waits for nothing, and so does the repair of a broken group.
"""

from __future__ import annotations

import msgspec

from swell.executors.gang import transition
from swell.executors.gang.gang_record import Member, State
from swell.executors.gang.runtime import GangRuntime
from swell.model.event import Outcome, ScriptVerified
from swell.model.gang_state import CHANGING, GangState
from swell.model.job import DifferenceAction
from swell.wire import messages

NO_NOTE = "no checkpoint with a step noted beside it could be made"


def is_over(live: GangRuntime) -> bool:
    """Whether the next group waits for no proof; asks for the next thing that is to be proved, once."""
    gang, spec = live.gang, live.job.spec
    joiners = [m for m in gang.joiners() if m.slot in gang.wanted_slots and not m.is_killed]
    is_of_none = not joiners or gang.setback.is_open or not (gang.has_started or gang.saved_steps)
    if is_of_none or gang.state not in (GangState.FORMING, GangState.NOTING, GangState.VERIFYING):
        return True
    if gang.state is GangState.FORMING and gang.has_started:
        gang.become(GangState.NOTING)
        gang.formation.ordered_s, gang.formation.is_lateness_told = live.now_s, False
        live.send(gang.formation.group[:1], messages.Witness())
    elif gang.state is GangState.FORMING:
        gang.become(GangState.VERIFYING)
    ready = [member for member in joiners if member.state is State.READY]
    if gang.state is GangState.VERIFYING and ready and not any(m.state is State.PROVING for m in joiners):
        ready[0].state, ready[0].since_s = State.PROVING, live.now_s
        live.send([ready[0].number], messages.Prove(cuts=spec.max_workers != spec.min_workers))
    return False


def note_witnessed(live: GangRuntime, steps: int | None, why_not: str = NO_NOTE) -> None:
    """The leader has noted what a step comes to, or will not: then joiners come in without a proof."""
    if live.gang.state is not GangState.NOTING:
        return
    live.gang.become(GangState.JOINING if steps is None else GangState.VERIFYING)
    if steps is None:
        _report(live, messages.Proved(why_not=why_not))


def note_proved(live: GangRuntime, message: messages.Proved, member: Member) -> None:
    """A difference that the head did not know of when it asked for the change puts an end to it."""
    gang, spec = live.gang, live.job.spec
    if member.state is not State.PROVING:
        return
    member.state = State.READY
    if message.is_last:
        member.state, member.left_s = State.LEFT, live.now_s
    _report(live, message)
    if gang.state in CHANGING:
        gang.become(GangState.JOINING)
    known = (*spec.accept_differences, *gang.known_findings)
    news = [found for found in message.findings if found.holds and found.name not in known]
    gang.known_findings += tuple(found.name for found in news)
    why = f"a new worker found {' and '.join(found.name for found in news)}"
    follow(live, message.steps, bool(news))
    if news and gang.has_started and gang.ending is None:
        transition.fail(live, why, Outcome.LOST)
    elif news and gang.ending is None and len(gang.wanted_slots) > spec.min_workers:
        transition.end(live, Outcome.STOPPED, why)  # the head, which knows it by then, asks for fewer


def follow(live: GangRuntime, steps: int | None, has_found: bool) -> None:
    """Of a job that is to roll back: keep the checkpoint that was verified, or end, to begin there again."""
    gang, spec = live.gang, live.job.spec
    if (
        spec.on_difference is not DifferenceAction.ROLL_BACK
        or not gang.has_started
        or gang.ending is not None
    ):
        return
    if has_found and gang.verified_steps is not None:
        transition.end(live, Outcome.STOPPED, "a new process computes something else")
    elif not has_found and steps is not None:
        gang.verified_steps = steps
        live.send(gang.formation.group[:1], messages.Verified(steps=steps))


def _report(live: GangRuntime, said: messages.Proved) -> None:
    told = ScriptVerified(at_s=live.now_s, job_id=live.job.job_id, steps=said.steps)
    live.report(msgspec.structs.replace(told, findings=said.findings, why_not=said.why_not))
