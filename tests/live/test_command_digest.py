"""Digests of commands tell whether a replay decides as was decided, and not which fields a version has."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import spec

from swell.live import recovery
from swell.live.command_digest import MARK, UNCHECKED_MARK, DamagedDigest, digest, is_equal
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, StopGang, WakeAt
from swell.model.job import JobSpec
from swell.model.target import Configuration, Target

COMMANDS: st.SearchStrategy[list[AnyCommand]] = st.lists(
    st.one_of(
        st.builds(WakeAt, at_s=st.floats(0.0, 1e9)),
        st.builds(StopGang, job_id=st.sampled_from("ab"), generation=st.integers(0, 2)),
        st.builds(
            LaunchGang,
            job_id=st.sampled_from("ab"),
            generation=st.integers(0, 2),
            target=st.builds(
                Target,
                devices=st.sampled_from([("d0",), ("d0", "d1")]),
                configuration=st.builds(Configuration, share=st.none() | st.sampled_from([0.5, 1.0])),
            ),
            spec=st.sampled_from([spec(10), spec(10, memory_bytes=5), spec(10, speed={1: 2.0, 10: 3.0})]),
            total_steps=st.none() | st.integers(0, 2),
        ),
    ),
    max_size=3,
)


@given(one=COMMANDS, other=COMMANDS)
def test_digests_are_equal_where_commands_are(one: list[AnyCommand], other: list[AnyCommand]) -> None:
    assert (digest(one) == digest(other)) == (one == other)
    assert is_equal(digest(one), other) == (one == other)


def grown(old: JobSpec) -> Any:
    """The specification as a later version has it."""
    later: Any = msgspec.defstruct(
        "JobSpec", [("new_field", int, 7)], bases=(JobSpec,), kw_only=True, frozen=True
    )
    return later(**msgspec.structs.asdict(old))


def test_a_field_that_a_later_version_knows_changes_nothing_while_it_has_its_default() -> None:
    now = ProfileJob(job_id="a", spec=spec(10), sizes=(1, 2), device_kind="cpu")
    later = msgspec.structs.replace(now, spec=grown(now.spec))
    assert digest([now]) == digest([later])
    other = msgspec.structs.replace(later, spec=msgspec.structs.replace(later.spec, new_field=8))
    assert digest([now]) != digest([other])


def of_earlier(commands: Any) -> str:
    """As it was noted before."""
    return hashlib.sha256(msgspec.json.encode(commands)).hexdigest()[:16]


@dataclass
class Noted:
    seq: int
    digest: str | None
    batch: tuple[()] = ()


def test_what_an_earlier_version_noted_is_compared_where_it_can_be_and_is_never_a_difference() -> None:
    same: list[AnyCommand] = [WakeAt(at_s=1.0)]
    fewer: list[AnyCommand] = [WakeAt(at_s=2.0)]
    assert is_equal(of_earlier(same), same) is True
    assert is_equal(of_earlier([{"type": "WakeAt"}]), fewer) is None
    entries = [
        (Noted(1, of_earlier(same)), same),
        (Noted(2, of_earlier([{"type": "WakeAt"}])), fewer),
        (Noted(3, None), fewer),
        (Noted(4, digest(fewer)), fewer),
    ]
    found = recovery.compare(entries)
    assert found.is_equal and (found.num_batches, found.num_compared, found.num_of_earlier) == (4, 2, 1)
    other = [(Noted(5, digest(same)), fewer)]
    assert recovery.compare(other).first_difference == 5


@given(commands=COMMANDS, data=st.data())
def test_a_flipped_bit_is_damage_and_no_other_decision(
    commands: list[AnyCommand], data: st.DataObject
) -> None:
    noted = bytearray(digest(commands).encode())
    place, bit = data.draw(st.integers(0, len(noted) - 1)), data.draw(st.integers(0, 7))
    noted[place] ^= 1 << bit
    damaged = noted.decode(errors="replace")
    with pytest.raises(DamagedDigest):
        is_equal(damaged, commands)
    found = recovery.compare([(Noted(1, damaged), commands), (Noted(2, digest(commands)), commands)])
    assert found.is_equal and (found.num_compared, found.num_damaged) == (1, 1)


@given(st.text() | st.text("0123456789abcdef:", max_size=30))
def test_what_is_no_digest_of_any_version_is_damaged(noted: str) -> None:
    if re.fullmatch("(2:)?[0-9a-f]{16}", noted):
        assert not is_equal(noted, [])
    else:
        with pytest.raises(DamagedDigest):
            is_equal(noted, [])


def test_what_the_version_before_noted_is_compared() -> None:
    commands: list[AnyCommand] = [WakeAt(at_s=1.0)]
    before = UNCHECKED_MARK + digest(commands)[len(MARK) :][:16]
    assert is_equal(before, commands) is True and is_equal(before, []) is False


def test_what_is_written_now_says_so() -> None:
    assert digest([]).startswith(MARK)
