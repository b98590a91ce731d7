"""What the resize benchmark makes of a log, on logs whose pauses are known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks.training.pauses import Pause, pause_of, stretches
from benchmarks.training.steplog import Line, StepLog, read_lines
from benchmarks.training.table import Row, row_of, verdict_on
from hypothesis import given
from hypothesis import strategies as st

from swell.wire.environ import AGENT, RESTART_COUNT

seconds = st.integers(1, 10_000).map(lambda number: number / 1000)


def group_of(
    name: str, num_workers: int, first_step: int, begun_s: float, steps_s: Sequence[float]
) -> list[Line]:
    """Lines of a group that begins to train at `begun_s`; rank 0 is done a little before the others."""
    lines, now_s = [], begun_s
    for number, step_s in enumerate(steps_s):
        now_s += step_s
        for rank in range(num_workers):
            early_s = 0.1 * step_s if rank == 0 and num_workers > 1 else 0.0
            lines.append(Line(now_s - early_s, first_step + number, num_workers, rank, name, 100 + rank))
    return lines


@given(seconds, seconds, seconds, st.integers(2, 8), st.integers(0, 5))
def test_a_pause_is_the_gap_between_two_groups(
    old_s: float, gap_s: float, new_s: float, num_steps: int, num_repeated: int
) -> None:
    old = group_of("a", 2, 10, 100.0, [old_s] * 9)
    begun_s = 100.0 + 9 * old_s + gap_s
    new = group_of("b", 4, 19 - num_repeated, begun_s, [new_s] * num_steps)
    pause = pause_of(stretches([*old, *new]), 0, 1, cause_s=100.0)
    assert pause.pause_s == pytest.approx(gap_s, abs=1e-6)
    assert pause.steady_step_s == pytest.approx(new_s, abs=1e-6)
    assert pause.to_next_step_s == pytest.approx(9 * old_s + gap_s + new_s, abs=1e-6)
    assert pause.num_repeated == num_repeated


@given(seconds, seconds, seconds, seconds, st.integers(2, 5))
def test_what_is_trained_on_the_way_is_no_pause(
    first_gap_s: float, second_gap_s: float, way_s: float, new_s: float, num_on_the_way: int
) -> None:
    old = group_of("a", 1, 0, 0.0, [1.0] * 4)
    begun_s = 4.0 + first_gap_s
    way = group_of("b", 5, 4, begun_s, [way_s] * num_on_the_way)
    begun_s += num_on_the_way * way_s + second_gap_s
    new = group_of("c", 8, 4 + num_on_the_way, begun_s, [new_s] * 4)
    pause = pause_of(stretches([*new, *old, *way]), 0, 2, cause_s=0.0)
    assert pause.pause_s == pytest.approx(first_gap_s + second_gap_s, abs=1e-6)
    assert pause.num_repeated == 0


def test_a_steady_step_is_the_median() -> None:
    old = group_of("a", 2, 0, 0.0, [1.0] * 3)
    new = group_of("b", 4, 3, 5.0, [2.5, 2.0, 9.0, 2.0, 2.0])  # one of them wrote a checkpoint
    pause = pause_of(stretches([*old, *new]), 0, 1, cause_s=3.0)
    assert (pause.steady_step_s, pause.pause_s) == pytest.approx((2.0, 5.0 - 3.0 + 0.5))


def test_a_group_that_took_a_single_step_has_no_steady_one() -> None:
    lines = [*group_of("a", 2, 0, 0.0, [1.0] * 3), *group_of("b", 4, 3, 5.0, [1.0])]
    with pytest.raises(ValueError, match="a group of 4 finished 1 step"):
        pause_of(stretches(lines), 0, 1, cause_s=0.0)


def test_a_step_is_whole_when_all_have_ended_it() -> None:
    lines = group_of("a", 3, 0, 0.0, [1.0] * 4)
    assert stretches(lines)[0].num_whole == 4
    assert stretches(lines[:-1])[0].num_whole == 3


def test_a_log_reads_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = StepLog(tmp_path)
    monkeypatch.setenv(AGENT, "127.0.0.1:1")
    for step, number in ((7, "1"), (8, "200")):  # the kernel gives a port out again after some hundred groups
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", "9")
        monkeypatch.setenv(RESTART_COUNT, number)
        log.note(step, num_workers=4, rank=3)
    with (tmp_path / "steps-1.log").open("w") as file:
        file.write("5.0 1 2 0 127.0.0.1:9 1\n6.0 2 2 0 127.0.0")  # killed while it wrote
    lines = read_lines(tmp_path)
    assert lines[0] == Line(5.0, 1, 2, 0, "127.0.0.1:9", 1)
    assert [(line.step, line.num_workers, line.rank, line.group) for line in lines[1:]] == [
        (7, 4, 3, "127.0.0.1:9/1"),
        (8, 4, 3, "127.0.0.1:9/200"),
    ]


def test_members_that_torchrun_counts_differently_are_one_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agents count restarts each for itself: one that has just come is at 0."""
    monkeypatch.delenv(AGENT, raising=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "9")
    log = StepLog(tmp_path)
    for rank, number in enumerate(("1", "0")):
        monkeypatch.setenv(RESTART_COUNT, number)
        log.note(7, num_workers=2, rank=rank)
    assert [stretch.num_whole for stretch in stretches(read_lines(tmp_path))] == [1]


def test_a_row_compares_medians() -> None:
    def pauses(*pauses_s: float) -> list[Pause]:
        return [Pause(each, steady_step_s=1.0, to_next_step_s=2.0, num_repeated=3) for each in pauses_s]

    def row(**found: list[Pause]) -> Row:
        return row_of("1M", "adam", "2 to 4", False, found)

    both = row(torchrun=pauses(9.0, 6.0, 8.0), swell=pauses(0.1, 0.9, 0.2))
    assert both.ratio == pytest.approx(8.0 / 0.2)
    assert row(swell=pauses(0.1)).ratio is None
    assert row(torchrun=pauses(9.0), swell=pauses(-0.1)).ratio == float("inf")
    assert verdict_on([both]) == ["1M: at least 50 times less wanted, 40 times less measured"]


def test_a_kill_is_judged_by_the_next_step() -> None:
    pause = Pause(0.02, steady_step_s=1.0, to_next_step_s=1.2, num_repeated=0)
    row = row_of("25M", "adam", "4, kill -9", True, {"swell": [pause]})
    assert verdict_on([row]) == ["25M: next step within 1.5 s of a kill wanted, 1.20 s measured"]
