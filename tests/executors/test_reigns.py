"""Two heads of one platform: hosts obey the later one, and the former one leaves them their workers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.test_host_door import NAME, TIMES, FakeController, World

from swell.executors.leases.lease_times import LeaseTimes
from swell.executors.local.agent.door import DoorError
from swell.executors.local.agent.options import AgentOptions
from swell.executors.node.head_addresses import FIRST_PAUSE_S, HeadAddresses
from swell.executors.node.state import HostState
from swell.executors.remote.certificate import CERTIFICATE_FILE
from swell.executors.remote.claims import Claims
from swell.executors.remote.head_term import (
    HeadTerm,
    UnusableHeadTerm,
    number_of,
    read_head_term,
    write_head_term,
)
from swell.executors.remote.host_address import HostAddress
from swell.executors.remote.host_door import HostDoor
from swell.executors.remote.joining import CannotJoin
from swell.executors.remote.lease_book import LeaseBook
from swell.executors.remote.listening_door import REPLACED_FILE, ListeningDoor
from swell.executors.remote.opening import JOIN_PROTOCOL, Join, JoinRefused

KEY = b"the key of all heads of this platform"


# ---------------------------------------------------------------- numbers
@given(number=st.integers(0, 10**9 - 1), text=st.text(max_size=80))
def test_only_who_has_the_key_can_say_that_there_was_a_head(number: int, text: str) -> None:
    sealed = HeadTerm(number, KEY).sealed
    assert HeadTerm(0, KEY).proven(sealed) == number == number_of(sealed)
    assert HeadTerm(0, b"other").proven(sealed) == 0
    assert HeadTerm(0, KEY).proven(f"{number + 1}.{sealed.partition('.')[2]}") == 0
    assert HeadTerm(0, KEY).proven(text) == 0


def test_a_reign_is_read_as_it_was_written_and_damage_is_told(tmp_path: Path) -> None:
    assert read_head_term(tmp_path) == 0
    write_head_term(tmp_path, 3)
    assert read_head_term(tmp_path) == 3
    (tmp_path / "reign").write_text("-1")
    with pytest.raises(UnusableHeadTerm, match="must hold how often another head has taken over"):
        read_head_term(tmp_path)


def test_a_host_remembers_the_latest_head(tmp_path: Path) -> None:
    host = HostState(tmp_path)
    for number in (2, 1):
        host.note_reign(HeadTerm(number, KEY).sealed)
    assert HostState(tmp_path).reign == HeadTerm(2, KEY).sealed


# ---------------------------------------------------------------- a head
@pytest.fixture
def world(tmp_path: Path) -> World:
    """A host has a worker."""
    world = World(tmp_path)
    book = LeaseBook(tmp_path, TIMES, lambda: world.time_s)
    world.controller = FakeController()
    world.door = HostDoor(world.controller, book, Claims(tmp_path), "c", reign=HeadTerm(1, KEY))
    world.pass_time(2.0)
    world.work()
    world.pass_time(0.2)
    assert world.host.insides[-1].has_worker
    return world


def seen(world: World, sealed: str) -> JoinRefused | None:
    """What the head says to another host that has joined this one."""
    return world.door.why_not(msgspec.structs.replace(world.host.join, host="n2", machine="o", reign=sealed))


def test_a_head_that_was_replaced_leaves_its_hosts_with_their_workers(world: World) -> None:
    refused = seen(world, HeadTerm(2, KEY).sealed)
    assert refused is not None and not refused.is_final
    assert "another head has taken this platform over (reign 2, this one has 1)" in refused.why
    world.pass_time(1.0)
    assert world.line is None and world.door.is_replaced
    assert world.host.insides[-1].has_worker and world.host.insides[-1].killed_s is None
    assert world.door.why_not(world.host.join) is not None, "it has no host any longer"


@pytest.mark.parametrize("sealed", ["", "7.forged", HeadTerm(7, b"other").sealed, HeadTerm(1, KEY).sealed])
def test_no_host_can_end_a_head_by_what_it_makes_up(world: World, sealed: str) -> None:
    assert seen(world, sealed) is None and not world.door.is_replaced
    world.pass_time(1.0)
    assert world.line is not None and NAME in world.controller.hosts


def listening(folder: Path) -> AgentOptions:
    return AgentOptions(state_dir=folder, preload=(), call="", listen="127.0.0.1:0", leases=LeaseTimes())


def test_an_agent_that_was_replaced_ends_and_no_other_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[tuple[int, int]] = []
    monkeypatch.setattr("swell.executors.remote.listening_door.os.kill", lambda *words: ended.append(words))
    door = ListeningDoor(FakeController(), listening(tmp_path), "c")
    key = (tmp_path / CERTIFICATE_FILE).read_bytes()
    join = Join(protocol=JOIN_PROTOCOL, version="1", host=NAME, machine="m", token="t")
    door.tick()
    assert not ended
    door._hosts.why_not(msgspec.structs.replace(join, reign=HeadTerm(1, key).sealed))
    for _ in range(2):
        door.tick()
    assert ended == [(os.getpid(), signal.SIGTERM)]
    with pytest.raises(DoorError, match="another head has taken this platform over"):
        ListeningDoor(FakeController(), listening(tmp_path), "c")


def test_no_agent_begins_where_another_head_has_taken_over(tmp_path: Path) -> None:
    write_head_term(tmp_path, 1, REPLACED_FILE)
    options = listening(tmp_path)
    with pytest.raises(DoorError, match="another head has taken this platform over"):
        ListeningDoor(FakeController(), options, "c")
    write_head_term(tmp_path, 2)  # it was restored from a later copy
    ListeningDoor(FakeController(), options, "c")


# ---------------------------------------------------------------- a host's addresses
FIRST, SECOND = HostAddress("10.9.0.1"), HostAddress("10.9.0.2")
AWAY = CannotJoin("cannot be reached")


def test_addresses_are_tried_in_turn_with_a_pause_after_each_round() -> None:
    heads = HeadAddresses([FIRST, SECOND])
    assert heads.fail(AWAY) == 0.0 and heads.present == SECOND
    assert heads.fail(AWAY) == FIRST_PAUSE_S and heads.present == FIRST
    heads.fail(AWAY)
    assert heads.fail(AWAY) == 2 * FIRST_PAUSE_S
    heads.fail(AWAY)
    heads.note_joined()
    assert (heads.present, heads.others) == (SECOND, (FIRST,))
    heads.turn_to(FIRST)
    assert heads.present == FIRST


def test_a_standby_at_the_second_address_does_not_end_the_host() -> None:
    heads = HeadAddresses([SECOND, FIRST])
    heads.fail(CannotJoin("another certificate", is_final=True, is_stranger=True))
    assert heads.present == FIRST
    with pytest.raises(CannotJoin, match="revoked"):
        heads.fail(CannotJoin("revoked", is_final=True))
    with pytest.raises(CannotJoin, match="another certificate"):
        HeadAddresses([FIRST]).fail(CannotJoin("another certificate", is_final=True, is_stranger=True))
