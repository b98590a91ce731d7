"""Each joined host is asked what it has, and one that does not answer is silent; no other answers for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.complete_machine import COMPLETE
from tests.executors.test_host_door import NAME, World

from swell.executors.local.protocol import ExaminationEnded, ExaminationMessage, HostExamined
from swell.executors.remote import examination
from swell.executors.remote.transient_messages import FactsTold

END = ExaminationEnded()


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.pass_time(1.0)
    return made


def ask(world: World) -> list[ExaminationMessage]:
    """What is told, as it comes."""
    told: list[ExaminationMessage] = []
    world.door.examine(told.append)
    world.pass_time(0.2)
    return told


def why_silent(told: list[ExaminationMessage]) -> str:
    silent, end = told
    assert isinstance(silent, HostExamined) and silent.facts is None and end == END
    return silent.why_silent


def test_a_host_tells_what_it_has_and_its_clock_is_compared(world: World) -> None:
    told = ask(world)
    assert told == []
    world.host.asked.pop()(msgspec.structs.replace(COMPLETE, clock_s=time.time() + 300.0))
    world.pass_time(0.2)
    examined, end = told
    assert isinstance(examined, HostExamined) and examined.facts is not None and end == END
    assert (examined.name, examined.facts.devices) == (NAME, COMPLETE.devices)
    assert examined.ahead_s == pytest.approx(300.0, abs=20.0)
    assert examined.way_problem is None, "it has named no port"


def test_without_hosts_the_end_is_told_at_once(tmp_path: Path) -> None:
    assert ask(World(tmp_path)) == [END]


def test_each_who_asks_is_answered(world: World) -> None:
    first, second = ask(world), ask(world)
    for told in world.host.asked:
        told(COMPLETE)
    world.pass_time(0.2)
    assert [len(first), len(second)] == [2, 2]


def test_a_host_that_does_not_answer_in_time_is_silent_and_its_late_answer_is_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "FACTS_WITHIN_S", 0.0)
    told = ask(world)
    assert why_silent(told) == "it has not answered within 0 s"
    world.host.asked.pop()(COMPLETE)
    world.pass_time(0.2)
    assert len(told) == 2


def test_a_host_without_a_line_is_not_waited_for(world: World) -> None:
    told = ask(world)
    world.is_up = False
    world.cut()
    world.pass_time(0.2)
    assert why_silent(told) == "its line to the head broke when it was asked"
    assert why_silent(ask(world)) == "it has no line to the head now"


def test_no_other_host_answers_for_it(world: World) -> None:
    told = ask(world)
    world.door._examinations.hear("n2", FactsTold(number=1, facts=COMPLETE))
    assert told == []


def test_the_way_to_a_host_is_tried_and_waited_for(tmp_path: Path) -> None:
    tried: list[Callable[[str], None]] = []
    world = World(tmp_path)
    world.start_controller(lambda address, port, told: tried.append(told))
    world.host.join = msgspec.structs.replace(world.host.join, advertise="10.9.0.11", probe_port=4711)
    world.pass_time(1.0)
    tried.clear()
    told = ask(world)
    world.host.asked.pop()(COMPLETE)
    world.pass_time(0.2)
    assert told == []
    tried.pop()("Connection refused")
    examined, _ = told
    assert isinstance(examined, HostExamined)
    assert (examined.advertise, examined.way_problem) == ("10.9.0.11", "Connection refused")
