"""What a gang may be about, and become: one table for gangs that run and for those that are simulated."""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import Enum, auto


class GangState(Enum):
    """What a gang is about. Its group may break in any of these.

    A change does not survive a break, unless it keeps the same members. The head gives another command before
    one is answered only to stop the gang.
    """

    FORMING = auto()  #: what a launch or a change wants is started and grouped
    NOTING = auto()  #: its joiners wait for the leader, which notes a step beside a checkpoint
    VERIFYING = auto()  #: they wait for one of them, which computes that step
    JOINING = auto()  #: they come in
    SHRINKING = auto()  #: the change has failed: what was started for it is to go
    TRAINING = auto()  #: it is what the head was told, or becomes that again
    SAVING = auto()  #: it is suspended: it saves its state, and leaves
    STOPPING = auto()  #: its processes are to go, see `GangEnd`
    ENDED = auto()  #: no process is left, and the end was told


#: States of a gang for which workers may have to be started.
CHANGING = (GangState.FORMING, GangState.NOTING, GangState.VERIFYING, GangState.JOINING)
_FROM_ANY = {GangState.FORMING, GangState.TRAINING, GangState.SAVING, GangState.STOPPING, GangState.ENDED}
_FROM_JOINING = _FROM_ANY | {GangState.JOINING, GangState.SHRINKING}
#: What a gang may come to be about, by what it is about.
TRANSITIONS: Mapping[GangState, Set[GangState]] = {
    GangState.FORMING: _FROM_JOINING | {GangState.NOTING, GangState.VERIFYING},
    GangState.NOTING: _FROM_JOINING | {GangState.VERIFYING},
    GangState.VERIFYING: _FROM_JOINING,
    GangState.JOINING: _FROM_JOINING,
    GangState.SHRINKING: _FROM_ANY,
    GangState.TRAINING: _FROM_ANY,
    GangState.SAVING: _FROM_ANY,
    GangState.STOPPING: {GangState.STOPPING, GangState.ENDED},
    GangState.ENDED: set(),
}


def next_state(state: GangState, to: GangState) -> GangState:
    """The state that a gang is to have now. Raises RuntimeError: one in `state` cannot become that."""
    if to not in TRANSITIONS[state]:
        raise RuntimeError(f"a gang that is {state.name} cannot become {to.name}")
    return to
