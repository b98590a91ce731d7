"""Who waits for a head that handles its journal again hears how far it is."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from swell.live.recovery import TELL_EVERY_S, telling
from swell.store.folder import Endpoint, RecoveryProgress, StateFolder
from swell.store.journal import JournalEntry


@given(costs_s=st.lists(st.floats(0.0, 10.0), max_size=30))
def test_it_is_told_every_now_and_then_and_no_batch_is_missing(costs_s: list[float]) -> None:
    """`costs_s`: what the head takes for each batch."""
    now_s, told, ends = 0.0, list[tuple[float, int]](), list[float]()
    past = [JournalEntry(number, (), None) for number in range(len(costs_s))]
    read = telling(past, lambda num: told.append((now_s, num)), lambda: ends.append(now_s), lambda: now_s)
    for number, cost_s in enumerate(costs_s):
        assert next(read) is past[number] and not ends
        latest_s = told[-1][0] if told else 0.0
        assert now_s - latest_s < TELL_EVERY_S
        now_s += cost_s
    assert list(read) == [] and len(ends) == 1
    nums = [num for _, num in told]
    assert nums == sorted(set(nums)) and all(num < len(costs_s) for num in nums)
    assert all(later - sooner >= TELL_EVERY_S for (sooner, _), (later, _) in pairwise(told))


def test_it_is_of_a_daemon_that_lives(tmp_path: Path) -> None:
    folder, me = StateFolder(tmp_path), Endpoint.of_this_process()
    assert folder.read_recovery() is None
    found = RecoveryProgress(daemon=me, num_handled=12_000, num_batches=40_000)
    folder.write_recovery(found)
    assert folder.read_recovery() == found
    assert str(found) == "12,000 of 40,000 batches of its journal are handled"
    folder.write_recovery(RecoveryProgress(daemon=Endpoint(pid=me.pid), num_handled=1, num_batches=2))
    assert folder.read_recovery() is None, "another process has its number"
    folder.recovery.write_text("garbage")
    assert folder.read_recovery() is None
    folder.remove_recovery()
    folder.remove_recovery()
