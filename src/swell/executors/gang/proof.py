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
from swell.model.job import DifferenceAction
from swell.wire import messages

NO_NOTE = "no checkpoint with a step noted beside it could be made"


def is_over(live: GangRuntime) -> bool:
    """Whether the next group waits for no proof; asks for the next thing that is to be proved, once."""
    gang, change = live.gang, live.gang.change
    joiners = [m for m in gang.joiners() if m.slot in gang.wanted_slots and not m.is_killed]
    is_of_none = not joiners or gang.setback.is_open or not (gang.has_started or gang.saved_steps)
    if is_of_none or change is None or change.is_suspend or change.proof == "over":
        return True
    if change.proof == "due" and gang.has_started:
        gang.formation.ordered_s, gang.formation.is_lateness_told = live.now_s, False
        live.send(gang.formation.group[:1], messages.Witness())
    if change.proof == "due":
        change.proof = "leader" if gang.has_started else "joiner"
    ready = [member for member in joiners if member.state is State.READY]
    if change.proof == "joiner" and ready and not any(m.state is State.PROVING for m in joiners):
        ready[0].state, ready[0].since_s = State.PROVING, live.now_s
        live.send([ready[0].number], order(live))
    return False


def order(live: GangRuntime) -> messages.Prove:
    """What a worker is told that is to prove itself."""
    spec = live.job.spec
    return messages.Prove(
        cuts=spec.max_workers != spec.min_workers,
        rolls_back=spec.on_difference is DifferenceAction.ROLL_BACK,
        known=_known(live),
    )


def _known(live: GangRuntime) -> tuple[str, ...]:
    return (*live.job.spec.accept_differences, *live.gang.known_findings)


def note_witnessed(live: GangRuntime, steps: int | None, why_not: str = NO_NOTE) -> None:
    """The leader has noted what a step comes to, or will not: then joiners come in without a proof."""
    change = live.gang.change
    if change is None or change.proof != "leader":
        return
    change.proof = "over" if steps is None else "joiner"
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
    if gang.change is not None:
        gang.change.proof = "over"
    news = [found for found in message.findings if found.holds and found.name not in _known(live)]
    gang.known_findings += tuple(found.name for found in news)
    why = f"a new worker found {' and '.join(found.name for found in news)}"
    if news and gang.has_started and spec.on_difference is DifferenceAction.ROLL_BACK:
        roll_back(live, why)
    elif news and gang.has_started:
        transition.fail(live, why, Outcome.LOST)
    elif news and gang.ending is None and len(gang.wanted_slots) > spec.min_workers:
        transition.end(live, Outcome.STOPPED, why)  # the head, which knows it by then, asks for fewer


def roll_back(live: GangRuntime, why: str) -> None:
    """End the gang: the next one begins at the newest checkpoint that was verified."""
    if live.gang.ending is None:
        transition.end(live, Outcome.STOPPED, why)


def _report(live: GangRuntime, said: messages.Proved) -> None:
    told = ScriptVerified(at_s=live.now_s, job_id=live.job.job_id, steps=said.steps)
    live.report(msgspec.structs.replace(told, findings=said.findings, why_not=said.why_not))
