"""Digests of commands tell whether a replay decides as was decided."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import spec

from swell.live import recovery
from swell.live.recovery import digest
from swell.model.command import AnyCommand, LaunchGang, StopGang, WakeAt
from swell.model.target import Configuration, Target
from swell.store.journal import JournalEntry

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


def test_a_batch_without_a_note_is_not_compared_and_the_first_difference_is_told() -> None:
    first: list[AnyCommand] = [WakeAt(at_s=1.0)]
    second: list[AnyCommand] = [WakeAt(at_s=2.0)]
    entries = [
        (JournalEntry(1, (), digest(first)), first),
        (JournalEntry(2, (), None), second),
        (JournalEntry(3, (), digest(second)), second),
    ]
    found = recovery.compare(entries)
    assert found.is_equal and (found.num_batches, found.num_compared) == (3, 2)
    assert recovery.compare([(JournalEntry(5, (), digest(first)), second)]).first_difference == 5
