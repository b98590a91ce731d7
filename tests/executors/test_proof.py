"""Workers that join a gang prove themselves first, unless that would hold the gang up."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.executors.puppets import PuppetWorld, launched, resize
from tests.executors.test_gang_controller import last, ranks, running
from tests.executors.test_gang_laws import OTHER, SETTINGS

from swell.executors.gang.gang_record import GangRecord
from swell.model.event import GangEnded, GangResized, GangStarted, Outcome, ResizeFailed, ScriptVerified
from swell.wire import messages as m

DIFFERS = m.Proved(steps=7, findings=(OTHER,))
LAST = replace(DIFFERS, is_last=True)
UNDECIDED = m.Proved(steps=7, findings=(replace(OTHER, holds=False),))


def growing(*wanted: int, has: int = 1, accepts: str = "") -> PuppetWorld:
    made = running(has, settings=SETTINGS, accept_differences=(accepts,))
    made.told.clear()
    made.command(resize(2, *wanted))
    return made


def verified(made: PuppetWorld) -> list[m.Proved]:
    """What the head was told."""
    told = [event for event in made.events if isinstance(event, ScriptVerified)]
    return [m.Proved(steps=one.steps, findings=one.findings, why_not=one.why_not) for one in told]


def go_on_until(made: PuppetWorld, name: str) -> None:
    while made.told[-1][0] != name:
        for number in list(made.puppets):
            made.advance(number)
            while made.puppets[number].outbox:
                made.hear(number)


def test_one_joiner_computes_the_step_that_the_leader_noted_before_any_comes_in() -> None:
    made = growing(3, 0, 1, 2, has=2)
    assert made.told == [("Witness", 0)], "while the joiners start"
    for number in (3, 2):
        made.advance(number)
        made.hear(number)
        made.hear(number)
    assert made.told == [("Witness", 0)], "which trains on, and has noted nothing yet"
    go_on_until(made, "Prove")
    made.settle()
    assert made.told == [("Witness", 0), ("Prove", 2), *(("Regroup", number) for number in range(4))]
    assert (ranks(made), verified(made)) == ([0, 1, 2, 3], [made.proof])
    made.told.clear()
    made.command(resize(3, 0, 2))
    made.settle()
    assert {name for name, _ in made.told} == {"Regroup"}, "there are no joiners"


@pytest.mark.parametrize(
    ("trouble", "proof", "why"),
    [
        ("no note", m.Proved(why_not="no checkpoint with a step noted beside it could be made"), ""),
        ("disk full", m.Proved(why_not="disk full"), ""),
        ("silent leader", m.Proved(why_not="its leader noted no step within 4 s"), ""),
        ("not computed", m.Proved(why_not="its checkpoint has no note"), ""),
        ("undecided", UNDECIDED, ""),
        ("accepted", LAST, ""),
        ("difference", DIFFERS, "a new worker found other-step"),
        ("early end", None, "worker 1 exited with status 2; its log ends:\nlast line"),
        ("death", None, "worker 1 was killed by SIGKILL"),
        ("no end", None, "others had waited for it for 8 s, and it was killed"),
    ],
)
def test_a_joiner_is_kept_out_by_what_it_finds_and_not_by_what_it_cannot_prove(
    trouble: str, proof: m.Proved | None, why: str
) -> None:
    made = growing(0, 1, 2, accepts=OTHER.name if trouble == "accepted" else "")
    made.is_disk_full, made.proof = trouble == "disk full", proof
    if trouble in ("no note", "silent leader"):
        made.puppets[0].inbox.clear()
    if trouble == "no note":
        made._apply(made.said(0, m.Witnessed()))
    if trouble == "death":
        go_on_until(made, "Prove")
    if trouble in ("death", "early end"):
        made.kill(1, status=2 if trouble == "early end" else -9)
    made.settle()
    told = last(made)
    assert verified(made) == ([replace(proof, is_last=False)] if proof else [])
    assert {puppet.phase for puppet in made.puppets.values()} == {"training"}
    if why:
        assert isinstance(told, ResizeFailed) and why in told.message and list(made.puppets) == [0]
        made.proof = DIFFERS if proof == DIFFERS else UNDECIDED
        made.command(resize(3, 0, 1))  # of a head that knows
        made.settle()
    assert isinstance(last(made), GangResized) and len(made.puppets) == (2 if why else 3)


@pytest.mark.parametrize(("dies", "asked"), [(0, "Witness"), (1, "Prove")])
def test_after_a_break_the_others_go_on_without_a_proof(dies: int, asked: str) -> None:
    made = growing(0, 1, 2, 3, has=3)
    made.proof = None
    go_on_until(made, asked)
    made.told.clear()
    made.kill(dies)
    made.settle()
    left = [number for number in range(3) if number != dies]
    made.command(resize(3, *left))
    made.settle()
    assert isinstance(last(made), GangResized)
    assert made.told == [("Regroup", number) for number in left]


@pytest.mark.parametrize(
    ("num_workers", "saved_steps", "proof", "known", "end"),
    [
        (2, 0, None, (), GangStarted),
        (2, 40, UNDECIDED, (), GangStarted),
        (2, 40, DIFFERS, (), GangEnded),
        (1, 40, LAST, (), GangStarted),  # the smallest size, by another worker
        (2, 40, DIFFERS, (OTHER.name,), GangStarted),  # the head knows, and asks
    ],
)
def test_a_gang_that_goes_on_from_a_checkpoint_computes_its_next_step_first(
    num_workers: int, saved_steps: int, proof: m.Proved | None, known: tuple[str, ...], end: type
) -> None:
    made = launched(num_workers, record=GangRecord(saved_steps=saved_steps, known_findings=known))
    made.proof = proof
    made.settle()
    told = last(made)
    assert type(told) is end
    assert verified(made) == ([replace(proof, is_last=False)] if proof else [])
    asked = [("Prove", 0)] if proof else []
    first = [("Regroup", int(proof is LAST))] if end is GangStarted else []
    assert made.told[: len(asked) + 1] == asked + first
    if isinstance(told, GangEnded):
        assert (told.outcome, told.steps, told.message) == (
            Outcome.STOPPED,
            40,
            "a new worker found other-step",
        )
