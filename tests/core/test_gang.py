"""A gang holds only what can be, whatever happens to it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.core.gang import NO_GANG, AnyGang, EndingGang, NoGang
from swell.core.phases import IllegalTransition
from swell.model.target import Configuration, Target

GOALS = [
    Target(devices=devices, configuration=Configuration(global_batch=batch))
    for devices, batch in product([("d0",), ("d0", "d1"), ("d2",)], [None, 64])
]
#: What may happen to a gang: name -> it, with a generation and a target to draw from.
HAPPENINGS: dict[str, Callable[[AnyGang, int, Target], AnyGang]] = {
    "launch": lambda gang, number, goal: gang.launch(goal),
    "started": lambda gang, number, goal: gang.started(number),
    "ask": lambda gang, number, goal: gang.ask(goal),
    "changed": lambda gang, number, goal: gang.changed(number),
    "change_failed": lambda gang, number, goal: gang.change_failed(),
    "lose": lambda gang, number, goal: gang.lose(number, goal.devices),
    "save": lambda gang, number, goal: gang.save(),
    "save_failed": lambda gang, number, goal: gang.save_failed(),
    "end": lambda gang, number, goal: gang.end(),
    "is_gone": lambda gang, number, goal: NO_GANG,
}
Life = list[tuple[str, Target]]
LIVES = st.lists(st.tuples(st.sampled_from(list(HAPPENINGS)), st.sampled_from(GOALS)), max_size=30)


def lives_of(life: Life) -> list[AnyGang]:
    """Every gang that such a life comes by; what cannot happen does not."""
    gangs: list[AnyGang] = [NO_GANG]
    for number, (name, goal) in enumerate(life, start=1):
        try:
            gangs.append(HAPPENINGS[name](gangs[-1], number, goal))
        except IllegalTransition:
            continue
    return gangs


@given(LIVES)
def test_a_gang_holds_its_members_and_what_it_is_to_have(life: Life) -> None:
    for gang in lives_of(life):
        assert len(gang.held) == len(set(gang.held))
        is_gone = isinstance(gang, NoGang)
        assert gang.phase.holds_devices != is_gone
        assert set(gang.held) == set(gang.members.devices) | set(gang.goal.devices)
        assert (gang.generation == 0) == (is_gone or gang.is_launching)


@given(LIVES)
def test_an_ending_gang_comes_back_only_as_none(life: Life) -> None:
    gangs = lives_of(life)
    for before, after in pairwise(gangs):
        if isinstance(before, EndingGang):
            assert isinstance(after, EndingGang | NoGang)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(IllegalTransition, match="a NoGang cannot have changed"):
        NO_GANG.changed(2)
