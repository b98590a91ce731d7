"""The log of idle nodes: what looks show, what a kill leaves, and that a simulation reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.executors.slurm.slurm_client import LOG_FILE, PoolLog
from swell.sim.pool import read_pool

T0 = 1_800_000_000


def rows(folder: Path) -> list[str]:
    path = folder / LOG_FILE
    return path.read_text().splitlines() if path.exists() else []


def row(node: str, start_s: int, end_s: int, devices: int = 1) -> str:
    """`start_s`, `end_s`: since T0."""
    return f"{node},{T0 + start_s},{T0 + end_s},{devices}"


def test_an_interval_lasts_from_the_first_look_that_shows_it_to_one_that_does_not(
    tmp_path: Path,
) -> None:
    log = PoolLog(tmp_path, 2)
    log.note_idle({"n1"}, T0)
    log.note_idle({"n1", "n2"}, T0 + 10)
    log.note_idle((), T0 + 20)
    log.close(T0 + 20)
    assert rows(tmp_path) == ["node,start_s,end_s,devices", row("n1", 0, 20, 2), row("n2", 10, 20, 2)]


LOOKS = st.lists(
    st.tuples(st.integers(1, 90), st.sets(st.integers(1, 4)), st.booleans()), min_size=2, max_size=20
)


@given(LOOKS)
def test_a_simulation_reads_whatever_was_written(
    tmp_path_factory: pytest.TempPathFactory, looks: list[tuple[int, set[int], bool]]
) -> None:
    folder = tmp_path_factory.mktemp("pool")
    log, now_s = PoolLog(folder, 2), T0
    for after_s, idle, is_killed in looks:
        now_s += after_s
        log.note_idle({f"n{number}" for number in idle}, now_s)
        if is_killed:
            log = PoolLog(folder, 2)
    log.close(now_s)
    if rows(folder):
        starts = [interval.start_s for interval in read_pool(folder / LOG_FILE).intervals]
        assert min(starts) == 0.0, "the log begins with the first of its times"
