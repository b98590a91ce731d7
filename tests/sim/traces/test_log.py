"""A trace of any length: the same jobs in the same order as if it had been read whole, in little memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick

from swell.sim.profiles.load import load
from swell.sim.traces import fill as filling
from swell.sim.traces import ordered
from swell.sim.traces.entry import TraceJob, order
from swell.sim.traces.errors import TraceError
from swell.sim.traces.fill import fill
from swell.sim.traces.log import Log
from swell.sim.traces.ordered import Ordered
from swell.sim.traces.read import read
from swell.sim.traces.rules import FillRules

Write = Callable[..., Path]

HEADER = "submit_s,id,num_devices,duration_s,deadline_s\n"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is full after a few jobs."""
    monkeypatch.setattr(ordered, "NUM_HELD", 8)
    monkeypatch.setattr(ordered, "NUM_IN_BLOCK", 3)
    monkeypatch.setattr(filling, "NUM_AT_ONCE", 5)


def lines(submissions_s: list[int]) -> str:
    return HEADER + "".join(
        f"{at_s},j{at},1,{60 + at},{at_s + 70}\n" for at, at_s in enumerate(submissions_s)
    )


@given(submissions_s=st.lists(st.integers(5, 40), max_size=60))
def test_jobs_come_out_in_order_wherever_they_wait(submissions_s: list[int]) -> None:
    jobs = [TraceJob(id=str(at), submit_s=float(at_s)) for at, at_s in enumerate(submissions_s)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordered, "NUM_HELD", 4)
        patch.setattr(ordered, "NUM_IN_BLOCK", 1)
        put = Ordered()
        for job in jobs:
            put.add(job)
        assert len(put) == len(jobs)
        assert list(put) == list(put) == sorted(jobs, key=order)


@given(
    shifts=st.lists(st.integers(0, 3), min_size=20, max_size=80),
)
def test_a_log_that_is_nearly_sorted_is_one_run(shifts: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordered, "NUM_HELD", 8)
        put = Ordered()
        for at, shift in enumerate(shifts):
            put.add(TraceJob(id=str(at), submit_s=float(at + shift)))
        assert put._runs is not None
        assert len(put._runs.open()) == 1


@pytest.mark.usefixtures("small")
@settings(max_examples=fewer_if_quick(30))
@given(submissions_s=st.lists(st.integers(5, 400), max_size=60), at=st.integers(0, 60))
def test_a_log_is_what_reading_it_whole_gives(
    submissions_s: list[int], at: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("log") / "trace.csv"
    told = lines(submissions_s).splitlines(keepends=True)
    insert = 1 + min(at, len(submissions_s))
    told[insert:insert] = ["soon,x,1,1,\n", "7,j0,1,1,\n"]
    path.write_text("".join(told))
    log, whole = Log(path), read(path)
    assert tuple(log.jobs) == tuple(log.jobs) == whole.jobs
    assert len(log.jobs) == len(whole.jobs)
    assert log.num_skipped == len(whole.skipped)
    assert (log.epoch_s, log.notes, log.format) == (whole.epoch_s, whole.notes, whole.format)
    rules = FillRules(seed=3, best_effort_share=0.5, buggy_share=0.1)
    ours, theirs = fill(log, load("law"), rules), fill(whole, load("law"), rules)
    assert tuple(ours.jobs) == tuple(ours.jobs) == tuple(theirs.jobs)
    assert (len(ours.jobs), ours.filled) == (len(theirs.jobs), theirs.filled)
    assert list(ours.left_out()) == list(theirs.left_out())


@pytest.mark.usefixtures("small")
def test_a_malformed_line_is_refused_wherever_it_stands(write: Write) -> None:
    path = write(lines(list(range(50))) + "soon,x,1,1,\n")
    assert Log(path).num_skipped == 1
    with pytest.raises(TraceError, match=r"line 52: submit_s is not a number: 'soon'; mend the line"):
        Log(path, is_strict=True)


class Traceable(TraceJob, frozen=True, weakref=True, gc=True):
    """A job of which one can tell whether anybody still has it."""


@pytest.mark.usefixtures("small")
def test_no_more_jobs_are_in_memory_than_it_is_to_hold() -> None:
    """Those of a log 100 times as long as what is held are put away as they come."""
    alive: weakref.WeakSet[TraceJob] = weakref.WeakSet()
    num_alive = []
    put = Ordered()
    for at in range(800):
        job = Traceable(id=str(at), submit_s=float(at))
        alive.add(job)
        put.add(job)
        num_alive.append(len(alive))
    assert max(num_alive) <= 8 + 1
    read_back = iter(put)
    assert [next(read_back).id for _ in range(3)] == ["0", "1", "2"]


def test_where_there_is_no_room_it_is_said(
    small: None, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(
        TraceError, match=r"cannot keep the jobs of a long trace in .*nowhere: .*; set TMPDIR to"
    ):
        Log(write(lines(list(range(50)))))


@pytest.mark.slow
def test_whoever_watches_is_told_how_far_a_file_has_been_read(write: Write) -> None:
    path = write(lines(list(range(100_000))))
    told: list[int] = []
    Log(path, watch=told.append)
    assert told[-1] == path.stat().st_size
    assert len(set(told)) > 3
